//! A real browser without a screen, if there is one: Debian's package `chromium`, or the program
//! that `PAGEWISE_BROWSER` names.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The browsers to try, in this order, if `PAGEWISE_BROWSER` is not set.
const NAMES: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// A browser that can be run.
#[derive(Debug)]
pub(crate) struct Browser(PathBuf);

impl Browser {
    /// Returns the browser of this machine; without one, says so on stderr: the caller skips its
    /// test. One that was asked for must be there.
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
            // Not by a macro, whose output the test harness would keep to itself.
            let note = "SKIPPED: no browser (apt-get install chromium, or set PAGEWISE_BROWSER)";
            let _ = writeln!(std::io::stderr(), "{note}");
        }
        found.map(|name| Self(name.to_owned()))
    }

    /// Returns the page's elements once its scripts have run, as HTML.
    pub(crate) fn dom(&self, page: &Path) -> String {
        let output = self.command(page).arg("--dump-dom").output().expect("the browser runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Takes a picture of the page as PNG; `size` is its width and height in pixels.
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
        // In a container, and as root, its own sandbox does not work; the pages are ours.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--virtual-time-budget=5000", "--disable-dev-shm-usage"]);
        command.arg(format!("file://{}", page.display()));
        command
    }
}
