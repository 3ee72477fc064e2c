//! The page that `report` writes: its contents, that hostile text cannot be injected, and that a
//! real browser draws it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use pagewise::trace::stacks::{Frame, Line, Module, Node};
use pagewise::trace::{Event, Origin, Stacks, Writer};
use serde_json::Value;

use crate::browser::Browser;
use crate::common::{Workbench, pagewise};

/// Text with which a trace could try to inject code into the page.
const HOSTILE: &str =
    "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>";

/// Makes a trace of a hostile program.
fn hostile_trace(bench: &Workbench) -> String {
    let path = bench.path("<b onclick=x>&\"'.pwt");
    let origin = Origin {
        program: HOSTILE.into(),
        arguments: vec![HOSTILE.into(), "\"'&<!--".into(), "\u{2028}".into()],
        note: HOSTILE.into(),
        ..Origin::default()
    };
    let mut writer = Writer::new(File::create(&path).expect("a file"), origin).expect("a writer");
    for slot in 0..500 {
        let size = u64::from(slot) * 37 % 5000 + 1;
        writer.write(Event::Allocate { slot, size, align: 16 }).expect("written");
    }
    for slot in (0..500).step_by(2) {
        writer.write(Event::Free { slot }).expect("written");
        writer.write(Event::Reallocate { slot: slot + 1, size: 9000 }).expect("written");
    }
    writer.finish().expect("finished");
    path
}

/// Makes a trace with call stacks and times: `main` calls `parse`, whose blocks are live at the
/// peak; a function named `leaky`, whose blocks are never freed; and `fleeting`, whose blocks are
/// freed at once.
fn trace_with_stacks(bench: &Workbench, leaky: &str) -> String {
    let path = bench.path("stacks.pwt");
    let names = ["main", "parse", leaky, "fleeting"].map(str::to_owned).to_vec();
    let frame = |function: u32| Frame {
        module: Some(0),
        address: function.into(),
        lines: vec![Line { function, file: None, line: 0 }],
    };
    let called = |frame| Node { parent: 1, frame };
    let stacks = Stacks {
        modules: vec![Module { path: "/bin/program".into(), build_id: Vec::new() }],
        names,
        frames: (0..4).map(frame).collect(),
        nodes: vec![Node { parent: 0, frame: 0 }, called(1), called(2), called(3)],
    };
    let [parse, leaky, fleeting] = [2, 3, 4];
    let file = File::create(&path).expect("a file");
    let mut writer = Writer::with_stacks(file, Origin::default()).expect("a writer");
    let mut write = |event, site| {
        writer.tell_time(writer.events() * 1_000_000);
        writer.write_at(event, site).expect("written");
    };
    let allocate = |slot, size| Event::Allocate { slot, size, align: 16 };
    (0..100).for_each(|slot| write(allocate(slot, 3000), leaky));
    for _ in 0..200 {
        write(allocate(100, 5000), fleeting);
        write(Event::Free { slot: 100 }, 0);
    }
    (100..400).for_each(|slot| write(allocate(slot, 2000), parse));
    (100..400).rev().for_each(|slot| write(Event::Free { slot }, 0));
    writer.finish_with(0, &stacks).expect("finished");
    path
}

/// Makes a report; returns its path and text.
fn report(bench: &Workbench, arguments: &[&str]) -> (PathBuf, String) {
    let page = bench.path("report.html");
    pagewise(&[&["report", "-o", &page], arguments].concat()).succeeds();
    let text = fs::read_to_string(&page).expect("the page");
    (page.into(), text)
}

#[test]
fn the_page_has_tables_verdict_and_chart_data() {
    let bench = Workbench::new();
    let (_, page) = report(&bench, &[&bench.trace(), "--strategy", "MRU,BEST-FIT,SYSTEM"]);
    for part in
        ["<th scope=\"row\">BEST-FIT</th>", "Fastest: ", "Fewest page faults: ", "id=\"data\""]
    {
        assert!(page.contains(part), "{part}");
    }
    // Nothing is fetched: the only address is the SVG namespace.
    let addresses = page.matches("http").count() - page.matches("http-equiv").count();
    assert_eq!(addresses, page.matches("\"http://www.w3.org/2000/svg\"").count());
}

#[test]
fn chart_data_is_also_printed_as_json() {
    let bench = Workbench::new();
    let args = ["report", &bench.trace(), "--strategy", "MRU,SYSTEM", "--json"];
    let charts: Value = serde_json::from_str(&pagewise(&args).succeeds()).expect("JSON");
    let chart = &charts[0];
    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().expect("an array").iter().filter_map(Value::as_u64).collect()
    };
    let requested = numbers(&chart["requested"]);
    assert!(!requested.is_empty() && requested.len() <= 400);
    for strategy in chart["strategies"].as_array().expect("an array") {
        let held = numbers(&strategy["held"]);
        assert_eq!(held.len(), requested.len());
        assert!(held.iter().zip(&requested).all(|(held, requested)| held >= requested));
        let map = &strategy["map"];
        let cells = map["rows"].as_u64().expect("rows") * map["columns"].as_u64().expect("columns");
        for layer in ["fill", "age", "size"] {
            assert_eq!(map[layer].as_str().expect("digits").len() as u64, cells);
        }
        assert!(!strategy["curve"].as_array().expect("an array").is_empty());
    }
}

#[test]
fn allocating_functions_are_in_charts_and_tables() {
    let bench = Workbench::new();
    let trace = trace_with_stacks(&bench, "leaky");
    let charts = pagewise(&["report", &trace, "--strategy", "MRU,SYSTEM", "--json"]).succeeds();
    let charts: Value = serde_json::from_str(&charts).expect("JSON");
    let chart = &charts[0];
    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().expect("an array").iter().filter_map(Value::as_u64).collect()
    };
    // The functions' live bytes add up to all live bytes.
    let live: Vec<_> = (chart["sites"].as_array().expect("an array").iter())
        .map(|one| (one["name"].as_str().expect("a name"), numbers(&one["live"])))
        .collect();
    assert_eq!(live.iter().map(|one| one.0).collect::<Vec<_>>(), ["parse", "leaky", "all others"]);
    for (part, requested) in numbers(&chart["requested"]).into_iter().enumerate() {
        assert_eq!(live.iter().map(|(_, live)| live[part]).sum::<u64>(), requested, "{part}");
    }
    // One operation per millisecond.
    let clock = chart["clock"].as_array().expect("an array");
    let clock: Vec<f64> = clock.iter().filter_map(Value::as_f64).collect();
    assert_eq!((clock.len(), clock[0]), (401, 0.0));
    assert!(clock.is_sorted() && (clock[200] - 0.55).abs() < 0.005, "{}", clock[200]);

    let (_, page) = report(&bench, &[&trace, "--strategy", "MRU,SYSTEM"]);
    for part in [
        "Most live at the peak: </b>parse has 585.9 KiB of 878.9 KiB (66.7 %).",
        "Never freed: </b>293.0 KiB in 100 blocks, 100.0 % of it by leaky.",
        "fleeting makes 99.5 % of them.",
        "<span class=\"function\">fleeting</span>",
        "300 × 2,000 B in ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let Some(browser) = Browser::find() else { return };
    let (path, _) = report(&bench, &[&trace, "--strategy", "MRU,SYSTEM"]);
    let seen = examine(&browser, &path);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    let flame = &seen["flame"];
    let text = |name: &str| flame[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(flame["cells"], serde_json::json!(["all", "main", "parse", "leaky"]), "{flame}");
    assert!(text("moved").starts_with("parse in program: 585.9 KiB live at the peak"), "{flame}");
    assert_eq!(flame["zoomed"], serde_json::json!(["parse", "main", "all"]), "{flame}");
    assert_eq!(text("path"), "all › main › parse");
    assert_eq!(flame["out"], serde_json::json!(["main", "all", "parse", "leaky"]), "{flame}");
    assert!(text("found").ends_with("Found: 293.0 KiB, 33.3 %"), "{flame}");
    assert_eq!(flame["marked"], serde_json::json!(["leaky"]), "{flame}");
    assert_eq!(flame["reset"], flame["cells"]);
    assert_eq!(flame["temporary"], serde_json::json!(["all", "main", "fleeting"]), "{flame}");
    assert_eq!(flame["clock"].as_str(), Some("0 s"));
}

#[test]
fn a_hostile_trace_stays_text() {
    let bench = Workbench::new();
    let (_, page) = report(&bench, &[&hostile_trace(&bench), "--strategy", "MRU"]);
    assert!(!page.contains(HOSTILE) && !page.contains("<img") && !page.contains("<b onclick"));
    assert!(page.contains("&lt;/script&gt;"));
    // The style, the data, and the script.
    assert_eq!(page.matches("</script>").count(), 2);
    let (path, page) = report(&bench, &[&trace_with_stacks(&bench, HOSTILE), "--strategy", "MRU"]);
    assert!(!page.contains(HOSTILE) && !page.contains("<img"));
    let Some(browser) = Browser::find() else { return };
    let seen = examine(&browser, &path);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert_eq!(seen["title"].as_str(), Some("pagewise: stacks"));
}

#[test]
fn a_report_that_fails_leaves_nothing_behind() {
    let bench = Workbench::new();
    let before = bench.files();
    let page = bench.path("report.html");
    pagewise(&["report", &bench.path("none.pwt"), "-o", &page]).fails(1, "none.pwt");
    pagewise(&["report", &bench.trace(), "-o", &bench.path("none/x.html")]).fails(1, "none/x.html");
    let wrong = ["report", &bench.trace(), "-o", &page, "--strategy", "xyz"];
    pagewise(&wrong).fails(2, "'xyz'");
    assert_eq!(bench.files(), before);
}

#[test]
fn traces_without_operations_or_memory_have_a_page_too() {
    let bench = Workbench::new();
    let empty = bench.path("empty.pwt");
    Writer::new(File::create(&empty).expect("a file"), Origin::default())
        .and_then(Writer::finish)
        .expect("written");
    let greedy = bench.path("greedy.pwt");
    let mut writer =
        Writer::new(File::create(&greedy).expect("a file"), Origin::default()).expect("a writer");
    writer.write(Event::Allocate { slot: 0, size: 1 << 60, align: 16 }).expect("written");
    writer.finish().expect("finished");
    let (path, page) = report(
        &bench,
        &[&empty, &greedy, "--strategy", "MRU,SYSTEM", "--memory=2305843009213693952"],
    );
    assert!(page.contains("out of memory at operation 1"));
    assert!(!page.contains("Fewest page faults"), "the strategies have equally many");
    if let Some(browser) = Browser::find() {
        assert_eq!(examine(&browser, &path)["errors"], Value::Array(Vec::new()));
    }
}

/// A curve of one point was an invisible path.
#[test]
fn a_single_point_is_drawn() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let one = bench.path("one.pwt");
    let file = File::create(&one).expect("a file");
    let mut writer = Writer::new(file, Origin::default()).expect("a writer");
    writer.write(Event::Allocate { slot: 0, size: 100, align: 16 }).expect("written");
    writer.finish().expect("finished");
    let (path, _) = report(&bench, &[&one, "--strategy", "MRU,SYSTEM"]);
    let dom = browser.dom(&path);
    let drawn = ["live", "held", "fragmentation", "faults"].map(|kind| points(&dom, kind));
    assert_eq!(drawn, [1, 3, 2, 2]);
    assert!(dom.contains(">1 operation</span>"), "the heaps' key");
}

/// Returns the number of points in the first figure of this kind.
fn points(dom: &str, kind: &str) -> usize {
    let figure = dom.split(&format!("data-kind=\"{kind}\"")).nth(1).expect("a figure");
    let figure = figure.split("</figure>").next().unwrap_or_default();
    figure.matches("<circle class=\"point ").count()
}

/// The bytes that GLOBAL holds are unknown, as are those of libraries.
#[test]
fn every_allocator_has_a_point_of_time_and_memory() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let trace = bench.trace();
    let (page, _) = report(&bench, &[&trace, &trace, "--strategy", "MRU,GLOBAL,SYSTEM"]);
    let dom = browser.dom(&page);
    assert_eq!(["means", "trade"].map(|kind| points(&dom, kind)), [3, 3]);
}

/// Runs before the page's own script, to record errors.
const NOTES: &str = "
const errors = [];
addEventListener('error', (event) => errors.push(String(event.message)));
addEventListener('securitypolicyviolation', (event) => errors.push(event.violatedDirective));
";

/// Runs after it: moves a pointer over every chart, clicks, and reports what it saw.
const EXAMINES: &str = "
const seen = { errors, charts: [], title: document.title, wide: [] };
// Uses keys in the flame graph, zooms, searches, and switches to another figure.
const flame = (figure) => {
  const press = (key) => figure.querySelector('.plot > svg').dispatchEvent(new KeyboardEvent('keydown', { key }));
  const texts = (of) => [...figure.querySelectorAll(of)].map((text) => text.textContent);
  const status = () => figure.querySelector('.status').textContent;
  const search = figure.querySelector('.search');
  const found = { cells: texts('.cell text') };
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowLeft']) press(key);
  found.moved = status();
  press('Enter');
  found.zoomed = texts('.cell text');
  found.path = figure.querySelector('.path').textContent;
  press('Escape');
  found.out = texts('.cell text');
  search.value = 'LEAK';
  search.dispatchEvent(new Event('input'));
  found.found = status();
  found.marked = texts('.cell.found text');
  figure.querySelector('.flame-bar button').click();
  found.reset = texts('.cell text');
  figure.querySelector('input[value=temporary]').click();
  found.temporary = texts('.cell text');
  found.clock = document.querySelector('.clock text')?.textContent;
  seen.flame = found;
  return [status()];
};
const tell = (figure) => {
  if (figure.dataset.kind === 'flame') return flame(figure);
  const tips = [];
  for (const chart of figure.querySelectorAll('.plot > svg')) {
    const box = chart.getBoundingClientRect();
    const place = { clientX: box.left + box.width * 0.6, clientY: box.top + box.height * 0.7 };
    chart.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, ...place }));
    const tip = chart.parentElement.querySelector('.tip');
    tips.push(tip.hidden ? '' : tip.textContent);
    chart.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    chart.dispatchEvent(new PointerEvent('pointerleave'));
  }
  return tips;
};
for (const figure of document.querySelectorAll('figure')) {
  seen.charts.push({ kind: figure.dataset.kind, tips: tell(figure) });
  figure.querySelector('.legend button')?.click();
  figure.querySelector('input[value=size]')?.click();
  for (const text of figure.querySelectorAll('svg text')) {
    if (/NaN|undefined|Infinity/.test(text.textContent + text.outerHTML)) seen.errors.push(text.outerHTML);
  }
}
const apart = () => {
  for (const row of document.querySelectorAll('.grid g')) {
    let end = -Infinity;
    for (const label of row.querySelectorAll('text')) {
      const box = label.getBoundingClientRect();
      if (box.left < end) seen.errors.push(`labels overlap: ${row.textContent}`);
      end = box.right;
    }
  }
};
apart();
for (const legend of document.querySelectorAll('.legend')) {
  const looks = new Set();
  for (const curve of legend.querySelectorAll('path')) {
    const { stroke, strokeDasharray, strokeWidth } = getComputedStyle(curve);
    const look = `${stroke} ${strokeDasharray} ${strokeWidth}`;
    if (looks.has(look)) seen.errors.push(`drawn as another is: ${curve.closest('button').textContent}`);
    looks.add(look);
  }
}
for (const chart of document.querySelectorAll('.panel svg')) {
  const places = [...chart.querySelectorAll('.gap')].map((line) => line.y1.baseVal.value);
  if (places.some((place, index) => index > 0 && places[index - 1] - place < 6)) seen.errors.push('gaps hide rows');
}
// Histograms of various lengths.
const more = html('figure', '');
more.append(html('div', 'plot'));
more.style.width = '480px';
document.body.append(more);
for (let len = 2; len < 60; len++) {
  bars(more, Array.from({ length: len }, (_, power) => [2 ** power, 1]), thousands, '', '')();
  apart();
}
more.remove();
// Points close together.
const close = html('figure', '');
close.append(html('div', 'plot'));
close.style.width = '800px';
document.body.append(close);
const names = ['MIMALLOC', 'TCMALLOC', 'JEMALLOC', 'PAGEWISE', 'BEST-FIT', 'MRU', 'HCGEN'];
for (let apart = 1; apart < 24; apart++) {
  const points = names.map((name, index) => ({ name, style: '', x: 1 + 0.004 * apart * index, y: 1 + 0.01 * (index % 3) }));
  scatter(close, points, (all) => [ratioAxis(all, 'x', 'time', 'A'), ratioAxis(all, 'y', 'memory', 'A')])();
  const shown = [...close.querySelectorAll('text.name')].map((text) => text.getBoundingClientRect());
  if (shown.length < 2) seen.errors.push('names are missing');
  // The fastest and the leanest, which come last among the others.
  const crowd = points.map((point) => ({ ...point, y: 1.02 })).reverse();
  const [fast, lean] = [{ ...crowd[0], name: 'FASTEST', x: 0.99 }, { ...crowd[0], name: 'LEANEST', x: 1 + 0.012 * apart, y: 1 }];
  scatter(close, [...crowd, fast, lean], (all) => [ratioAxis(all, 'x', 'time', 'A'), ratioAxis(all, 'y', 'memory', 'A')])();
  const best = [...close.querySelectorAll('text.name')].map((text) => text.textContent);
  if (!best.includes('FASTEST') || !best.includes('LEANEST')) seen.errors.push(`the best are not named: ${apart}`);
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
  if (shown.some((a, index) => shown.slice(index + 1).some((b) => touch(a, b)))) seen.errors.push(`names overlap: ${apart}`);
}
close.remove();
dispatchEvent(new Event('beforeprint'));
dispatchEvent(new Event('afterprint'));
if (document.documentElement.scrollWidth > innerWidth) seen.errors.push('wider than its window');
const result = document.createElement('pre');
result.id = 'seen';
result.textContent = JSON.stringify(seen);
document.body.append(result);
";

/// Makes the browser draw the page, does what a reader would, and returns what was seen.
fn examine(browser: &Browser, page: &Path) -> Value {
    let text = fs::read_to_string(page).expect("the page");
    let nonce = text.split("script nonce=\"").nth(1).and_then(|rest| rest.split('"').next());
    let script = |body| format!("<script nonce=\"{}\">{body}</script>", nonce.expect("a nonce"));
    let examined = page.with_extension("examined.html");
    let text = text.replacen("<body>", &format!("<body>{}", script(NOTES)), 1);
    let text = text.replacen("</body>", &format!("{}</body>", script(EXAMINES)), 1);
    fs::write(&examined, text).expect("written");
    let dom = browser.dom(&examined);
    let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let seen = seen.unwrap_or_else(|| panic!("the scripts did not run: {dom}"));
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&seen).expect("JSON")
}

#[test]
fn a_browser_draws_every_chart_and_shows_values_on_hover() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let traces = [bench.trace(), hostile_trace(&bench)];
    let (page, _) =
        report(&bench, &[&traces[0], &traces[1], "--strategy", "MRU,FIRST-FIT,BUDDY,SYSTEM"]);
    let seen = examine(&browser, &page);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert!(seen["title"].as_str().expect("a title").starts_with("pagewise: small, <b onclick"));
    let charts = seen["charts"].as_array().expect("an array");
    // The means, and eight charts per trace.
    assert_eq!(charts.len(), 1 + 2 * 8);
    for chart in charts {
        let tips = chart["tips"].as_array().expect("an array");
        let expected = if chart["kind"] == "maps" { 4 } else { 1 };
        assert_eq!(tips.len(), expected, "{chart}");
        // Above a low heap there may be nothing to show.
        let told = tips.iter().filter(|tip| tip.as_str().is_some_and(|tip| !tip.is_empty()));
        assert!(told.count() > 0, "{chart}");
    }
}

#[test]
fn gaps_in_a_heap_do_not_hide_it() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    // A page of 64 KiB for each size, little of it used.
    let sizes = (1..60).map(|n| format!("{},20,5\n", n * 200)).collect::<String>();
    let sizes = bench.write("many.csv", format!("size,rate,live\n{sizes}"));
    let trace = bench.path("many.pwt");
    let made = ["generate", "--distribution", &sizes, "--seconds", "5", "-o", &trace];
    pagewise(&made).succeeds();
    let (page, _) = report(&bench, &[&trace, "--strategy", "MRU,SYSTEM"]);
    let seen = examine(&browser, &page);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
}

/// There are eight colours.
#[test]
fn no_two_curves_look_alike() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let many = "STACK,QUEUE,RANDOM,NOFREE,QUICK,MRU,SYSTEM,MOST-FREE,BUDDY,FIRST-FIT,BEST-FIT,\
                WORST-FIT,PAGEWISE,KINGSLEY,HCGEN,HCMEM,HCPERF,HEAD-FIRST,LFL,LEA";
    let (page, _) = report(&bench, &[&bench.trace(), "--strategy", many]);
    let seen = examine(&browser, &page);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
}

#[test]
fn tuning_gains_are_shown_on_request() {
    let bench = Workbench::new();
    let (trace, tuned) = (bench.trace(), bench.path("tune.json"));
    let search = ["tune", &trace, "--for", "memory", "--candidates", "12", "--against", "none"];
    pagewise(&[&search[..], &["-o", &tuned]].concat()).succeeds();
    let (page, text) = report(&bench, &[&trace, "--strategy", "MRU", "--tune", &tuned]);
    for part in ["Gain from tuning: small", " than the default", "pub fn heap()"] {
        assert!(text.contains(part), "{part}");
    }
    let (_, without) = report(&bench, &[&trace, "--strategy", "MRU"]);
    assert!(!without.contains("Gain from tuning"));
    pagewise(&["report", &trace, "-o", &bench.path("x.html"), "--tune", &trace])
        .fails(1, "is not a result of `pagewise tune");
    let Some(browser) = Browser::find() else { return };
    fs::write(&page, text).expect("written");
    let seen = examine(&browser, &page);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    let charts = seen["charts"].as_array().expect("an array");
    let fronts: Vec<_> = charts.iter().filter(|chart| chart["kind"] == "tuned").collect();
    assert_eq!(fronts.len(), 2);
    for front in fronts {
        assert!(
            front["tips"][0].as_str().is_some_and(|tip| tip.contains("page faults")),
            "{front}"
        );
    }
}

/// Takes screenshots for inspection, kept with the build: `target/tmp/report/`.
#[test]
fn the_page_renders_light_dark_on_phone_and_paper() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&folder).expect("a directory");
    let sqlite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/sqlite3.pwt");
    // One report with a short search, so that its section is visible, and one with call stacks.
    let stacks = trace_with_stacks(&bench, "leaky");
    let (page, _) = report(&bench, &[sqlite.to_str().expect("UTF-8"), &stacks, "--tune"]);
    let seen = examine(&browser, &page);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    let kept = folder.join("report.html");
    fs::copy(&page, &kept).expect("copied");
    // A window cannot be as narrow as a phone, but a frame can.
    let phone = folder.join("phone.html");
    let frame = "<body style=\"margin:0\"><iframe src=\"report.html\" \
                 style=\"width:390px;height:8400px;border:0\"></iframe>";
    fs::write(&phone, frame).expect("written");
    browser.screenshot(&kept, (1200, 6200), false, &folder.join("light.png"));
    browser.screenshot(&kept, (1200, 6200), true, &folder.join("dark.png"));
    browser.screenshot(&phone, (500, 8400), false, &folder.join("phone.png"));
    browser.print(&kept, &folder.join("print.pdf"));
    let picture = |name: &str| fs::read(folder.join(name)).expect("a picture");
    let (light, dark) = (picture("light.png"), picture("dark.png"));
    assert!(light.starts_with(b"\x89PNG") && dark.starts_with(b"\x89PNG") && light != dark);
    assert!(picture("print.pdf").starts_with(b"%PDF"));
}
