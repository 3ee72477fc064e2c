//! Analyses a web server's access log: which clients are active, and which paths are slow.
//!
//! ```text
//! $ cargo run --release --example access_log            # a synthetic log of 600,000 lines
//! $ cargo run --release --example access_log 100000
//! ```
//! An ordinary program on the system's allocator, which the guide `docs/tuning.md` tunes: most of
//! its memory is sessions of 264 bytes, a size that general-purpose allocators round up.

use std::collections::HashMap;
use std::fmt::Write;

/// Seconds without a request after which a session ends.
const IDLE: u32 = 900;

/// The requests of one client: when they came, and their waiting times in milliseconds, as a
/// histogram over powers of √2.
struct Session {
    first: u32,
    last: u32,
    waits: [u32; 64],
}

/// The state of the analysis.
#[derive(Default)]
struct Analysis {
    sessions: HashMap<Box<str>, Box<Session>>,
    /// Milliseconds of each response, by path.
    paths: HashMap<Box<str>, Vec<u32>>,
    /// Number of ended sessions, and their total seconds.
    ended: (u64, u64),
}

impl Analysis {
    /// Parses a line: `SECONDS CLIENT "GET PATH" STATUS MILLISECONDS`; false if it has another
    /// form.
    fn read(&mut self, line: &str) -> bool {
        let mut parts = line.split('"');
        let (Some(before), Some(request), Some(after)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let mut before = before.split_whitespace();
        let (Some(seconds), Some(client)) = (before.next(), before.next()) else { return false };
        let path = request.split_whitespace().nth(1).unwrap_or("/");
        let wait = after.split_whitespace().nth(1).and_then(|wait| wait.parse().ok());
        let (Ok(now), Some(wait)) = (seconds.parse::<u32>(), wait) else { return false };
        let wait: u32 = wait;
        if !self.sessions.contains_key(client) {
            let session = Session { first: now, last: now, waits: [0; 64] };
            self.sessions.insert(client.into(), Box::new(session));
        }
        if let Some(session) = self.sessions.get_mut(client) {
            session.last = now;
            session.waits[(f64::from(wait.max(1)).log2() * 2.0) as usize & 63] += 1;
        }
        match self.paths.get_mut(path) {
            Some(waits) => waits.push(wait),
            None => _ = self.paths.insert(path.into(), vec![wait]),
        }
        true
    }

    /// Ends the sessions that were idle for too long.
    fn expire(&mut self, now: u32) {
        let ended = &mut self.ended;
        self.sessions.retain(|_, session| {
            let stays = session.last + IDLE > now;
            if !stays {
                ended.0 += 1;
                ended.1 += u64::from(session.last - session.first);
            }
            stays
        });
    }

    /// Prints the slowest paths, and the number of active clients.
    fn print(&mut self) {
        let mut slow: Vec<(u32, &str, usize)> = Vec::new();
        for (path, waits) in &mut self.paths {
            waits.sort_unstable();
            slow.push((waits[waits.len() * 95 / 100], path, waits.len()));
        }
        slow.sort_unstable_by(|a, b| b.cmp(a));
        println!("{:>24} {:>9} {:>8}", "path", "requests", "95 % in");
        for (wait, path, requests) in slow.iter().take(5) {
            println!("{path:>24} {requests:>9} {wait:>5} ms");
        }
        let waited = |session: &Session| session.waits.iter().map(|&n| u64::from(n)).sum::<u64>();
        let requests: u64 = self.sessions.values().map(|session| waited(session)).sum();
        let (ended, seconds) = self.ended;
        println!(
            "{} clients are there, of {requests} requests; {ended} went, after {} s on average",
            self.sessions.len(),
            seconds / ended.max(1)
        );
    }
}

/// Writes a line of a plausible log: clients come and go, a few paths get most of the requests.
fn line(number: u32, random: &mut u64, line: &mut String) {
    let mut draw = |below: u64| {
        // xorshift64
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random % below
    };
    let now = number / 150;
    // Most lines are from the newest clients.
    let client = u64::from(number) * 2 / 5 + 1_000_000 - draw(60_000) * draw(1000) / 1000;
    let path = draw(400) * draw(400) / 400;
    let wait = 5 + path % 7 * 20 + draw(40) * draw(40) / 10;
    line.clear();
    let _ = write!(line, "{now} client-{client:x} \"GET /shop/article/{path}\" 200 {wait}");
}

/// Returns the seconds of processor time, and the peak of resident memory in KiB, on Linux.
fn cost() -> Option<(f64, u64)> {
    let schedule = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanoseconds: f64 = schedule.split_whitespace().next()?.parse().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some((nanoseconds / 1e9, peak.trim().strip_suffix(" kB")?.parse().ok()?))
}

fn main() {
    let lines = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(600_000);
    let mut analysis = Analysis::default();
    let (mut random, mut text, mut bad) = (0x2545_f491_4f6c_dd1d, String::new(), 0);
    for number in 0..lines {
        line(number, &mut random, &mut text);
        bad += u32::from(!analysis.read(&text));
        if number % 15_000 == 0 {
            analysis.expire(number / 150);
        }
    }
    analysis.print();
    if bad > 0 {
        eprintln!("{bad} lines were bad");
    }
    if let Some((seconds, peak)) = cost() {
        eprintln!("{seconds:.2} s of processor time, {peak} KiB resident at most");
    }
}
