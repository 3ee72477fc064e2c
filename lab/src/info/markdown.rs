//! The three tables of Hasan & Chang in Markdown, with a row per trace.

use pagewise_replay::printable::printable_markdown;
use pagewise_replay::units::thousands;

use super::content::Info;

/// A column: its head, and a trace's text in it.
type Column = (&'static str, fn(&Info) -> String);

const TABLE_1: &[Column] = &[
    ("#sizes", |info| thousands(info.statistics.sizes.all)),
    ("#small", |info| thousands(info.statistics.sizes.small)),
    ("#large", |info| thousands(info.statistics.sizes.large)),
    ("%SS", |info| format!("{:.2}", info.statistics.segregated_storage_percent)),
];

const TABLE_3: &[Column] = &[
    ("Bytes requested", |info| thousands(info.statistics.requested_bytes)),
    ("Bytes allocated", |info| thousands(info.statistics.allocated_bytes.all)),
    ("Small bytes", |info| thousands(info.statistics.allocated_bytes.small)),
    ("Large bytes", |info| thousands(info.statistics.allocated_bytes.large)),
    ("Max bytes", |info| thousands(info.statistics.max_allocated_bytes.all)),
    ("Max small bytes", |info| thousands(info.statistics.max_allocated_bytes.small)),
    ("Max large bytes", |info| thousands(info.statistics.max_allocated_bytes.large)),
];

const TABLE_4: &[Column] = &[
    ("Total allocs", |info| thousands(info.statistics.allocations.all)),
    ("Small allocs", |info| thousands(info.statistics.allocations.small)),
    ("Large allocs", |info| thousands(info.statistics.allocations.large)),
    ("Max allocs", |info| thousands(info.statistics.max_live_blocks.all)),
    ("Max small allocs", |info| thousands(info.statistics.max_live_blocks.small)),
    ("Max large allocs", |info| thousands(info.statistics.max_live_blocks.large)),
    ("Total reallocs", |info| thousands(info.statistics.reallocations)),
    ("Total frees", |info| thousands(info.statistics.frees)),
];

/// Returns all three tables over these traces.
pub(super) fn tables(traces: &[Info]) -> String {
    let captions = ["Allocated sizes (Table 1)", "Bytes (Table 3)", "Operations (Table 4)"];
    let tables = captions.iter().zip([TABLE_1, TABLE_3, TABLE_4]);
    let tables = tables.map(|(caption, columns)| table(caption, columns, traces));
    tables.collect::<Vec<_>>().join("\n")
}

fn table(caption: &str, columns: &[Column], traces: &[Info]) -> String {
    let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
    let mut text = format!("{caption}\n\n| Program | {} |\n", heads.join(" | "));
    text += &format!("|---|{}\n", "---:|".repeat(columns.len()));
    for info in traces {
        let cells: Vec<_> = columns.iter().map(|(_, cell)| cell(info)).collect();
        text += &format!("| {} | {} |\n", printable_markdown(&info.trace), cells.join(" | "));
    }
    text
}
