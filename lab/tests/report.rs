//! The page that `report` writes: what is in it, what cannot get into it, and that a real browser
//! draws it.

mod browser;
mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use browser::Browser;
use common::{Workbench, pagewise};
use pagewise::trace::{Event, Origin, Writer};
use serde_json::Value;

/// What a trace could try to put into the page.
const HOSTILE: &str =
    "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>";

/// A trace of a hostile program.
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

/// Makes a report, and gives its path and its text.
fn report(bench: &Workbench, arguments: &[&str]) -> (PathBuf, String) {
    let page = bench.path("report.html");
    pagewise(&[&["report", "-o", &page], arguments].concat()).succeeds();
    let text = fs::read_to_string(&page).expect("the page");
    (page.into(), text)
}

#[test]
fn the_page_has_the_tables_the_verdict_and_what_is_drawn() {
    let bench = Workbench::new();
    let (_, page) = report(&bench, &[&bench.trace(), "--strategy", "MRU,BEST-FIT,SYSTEM"]);
    for part in
        ["<th scope=\"row\">BEST-FIT</th>", "Fastest: ", "Fewest page faults: ", "id=\"data\""]
    {
        assert!(page.contains(part), "{part}");
    }
    // Nothing is fetched from anywhere: the only address is the name space of SVG.
    let addresses = page.matches("http").count() - page.matches("http-equiv").count();
    assert_eq!(addresses, page.matches("\"http://www.w3.org/2000/svg\"").count());
}

#[test]
fn what_is_drawn_is_also_printed_as_json() {
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
fn a_hostile_trace_stays_text() {
    let bench = Workbench::new();
    let (_, page) = report(&bench, &[&hostile_trace(&bench), "--strategy", "MRU"]);
    assert!(!page.contains(HOSTILE) && !page.contains("<img") && !page.contains("<b onclick"));
    assert!(page.contains("&lt;/script&gt;"));
    // The style, the data, and the script.
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn a_report_that_fails_leaves_nothing_behind() {
    let bench = Workbench::new();
    let before = bench.files();
    let page = bench.path("report.html");
    pagewise(&["report", &bench.trace()]).fails(2, "--output");
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
    if let Some(browser) = Browser::find() {
        assert_eq!(examine(&browser, &path)["errors"], Value::Array(Vec::new()));
    }
}

/// Runs before the page's own script: notes what goes wrong.
const NOTES: &str = "
const errors = [];
addEventListener('error', (event) => errors.push(String(event.message)));
addEventListener('securitypolicyviolation', (event) => errors.push(event.violatedDirective));
";

/// Runs behind it: moves a pointer over every chart, clicks, and tells what it saw.
const EXAMINES: &str = "
const seen = { errors, charts: [], title: document.title, wide: [] };
const tell = (figure) => {
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
dispatchEvent(new Event('beforeprint'));
dispatchEvent(new Event('afterprint'));
if (document.documentElement.scrollWidth > innerWidth) seen.errors.push('wider than its window');
const result = document.createElement('pre');
result.id = 'seen';
result.textContent = JSON.stringify(seen);
document.body.append(result);
";

/// Lets the browser draw the page, tries what a reader would, and gives what was seen.
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
fn a_browser_draws_every_chart_and_tells_values_on_hover() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let traces = [bench.trace(), hostile_trace(&bench)];
    let (page, _) =
        report(&bench, &[&traces[0], &traces[1], "--strategy", "MRU,FIRST-FIT,BUDDY,SYSTEM"]);
    let seen = examine(&browser, &page);
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert!(seen["title"].as_str().expect("a title").starts_with("pagewise: small, <b onclick"));
    let charts = seen["charts"].as_array().expect("an array");
    // The means, and eight for each trace.
    assert_eq!(charts.len(), 1 + 2 * 8);
    for chart in charts {
        let tips = chart["tips"].as_array().expect("an array");
        let expected = if chart["kind"] == "maps" { 4 } else { 1 };
        assert_eq!(tips.len(), expected, "{chart}");
        // Above a low heap there may be nothing to tell.
        let told = tips.iter().filter(|tip| tip.as_str().is_some_and(|tip| !tip.is_empty()));
        assert!(told.count() > 0, "{chart}");
    }
}

#[test]
fn what_tuning_gains_is_shown_if_asked_for_and_drawn() {
    let bench = Workbench::new();
    let (trace, tuned) = (bench.trace(), bench.path("tune.json"));
    let search = ["tune", &trace, "--for", "memory", "--candidates", "12", "--against", "none"];
    pagewise(&[&search[..], &["-o", &tuned]].concat()).succeeds();
    let (page, text) = report(&bench, &[&trace, "--strategy", "MRU", "--tune", &tuned]);
    for part in ["What tuning gains: small", " than the default", "pub fn heap()"] {
        assert!(text.contains(part), "{part}");
    }
    let (_, without) = report(&bench, &[&trace, "--strategy", "MRU"]);
    assert!(!without.contains("What tuning gains"));
    pagewise(&["report", &trace, "-o", &bench.path("x.html"), "--tune", &trace])
        .fails(1, "is no result of `pagewise tune");
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

/// Pictures to look at, kept with the build: `target/tmp/report/`.
#[test]
fn a_browser_shows_it_light_dark_on_a_phone_and_on_paper() {
    let Some(browser) = Browser::find() else { return };
    let bench = Workbench::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&folder).expect("a directory");
    let jq = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/jq.pwt");
    // With a short search, for its section to be in the pictures.
    let (page, _) = report(&bench, &[jq.to_str().expect("UTF-8"), "--tune"]);
    let kept = folder.join("report.html");
    fs::copy(&page, &kept).expect("copied");
    // No window is as narrow as a phone, but a frame can be.
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
