//! A headless browser, if installed: Debian's package `chromium`, or the program named by
//! `PAGEWISE_BROWSER`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The browsers to try, in this order, unless `PAGEWISE_BROWSER` is set.
const NAMES: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// A browser's program.
#[derive(Debug)]
pub(crate) struct Browser(PathBuf);

impl Browser {
    /// Returns this machine's browser. Without one, prints a note on stderr, and the caller skips
    /// its test; but a browser named in the environment must exist.
    pub(crate) fn find() -> Option<Self> {
        let runs = |name: &Path| {
            let tried = Command::new(name).arg("--version").output();
            tried.is_ok_and(|output| output.status.success())
        };
        if let Some(name) = std::env::var_os("PAGEWISE_BROWSER").map(PathBuf::from) {
            assert!(runs(&name), "PAGEWISE_BROWSER: {} cannot be run", name.display());
            return Some(Self(name));
        }
        let found = NAMES.iter().map(Path::new).find(|name| runs(name));
        if found.is_none() {
            // Not with a macro, because the test runner captures its output.
            let note = "SKIPPED: no browser (apt-get install chromium, or set PAGEWISE_BROWSER)";
            let _ = writeln!(std::io::stderr(), "{note}");
        }
        found.map(|name| Self(name.to_owned()))
    }

    /// Returns the page's DOM as HTML, after its scripts have run.
    pub(crate) fn dom(&self, page: &Path) -> String {
        let output = self.command(page).arg("--dump-dom").output().expect("the browser runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Takes a screenshot of the page as PNG; `size` is width and height in pixels.
    pub(crate) fn screenshot(&self, page: &Path, size: (u32, u32), dark: bool, to: &Path) {
        let mut command = self.command(page);
        command.arg(format!("--window-size={},{}", size.0, size.1));
        command.args(dark.then_some("--force-dark-mode"));
        command.arg(format!("--screenshot={}", to.display()));
        let output = command.output().expect("the browser runs");
        assert!(to.is_file(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Prints the page as PDF.
    pub(crate) fn print(&self, page: &Path, to: &Path) {
        let mut command = self.command(page);
        command.arg("--no-pdf-header-footer").arg(format!("--print-to-pdf={}", to.display()));
        let output = command.output().expect("the browser runs");
        assert!(to.is_file(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, page: &Path) -> Command {
        let mut command = Command::new(&self.0);
        // The browser's sandbox does not work in a container or as root; the pages are our own.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--virtual-time-budget=5000", "--disable-dev-shm-usage"]);
        command.arg(format!("file://{}", page.display()));
        command
    }
}
