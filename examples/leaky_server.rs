//! A server that grows: the example of `docs/who.md`, which finds the cause and fixes it.
//!
//! It serves pages to clients on the same machine, which it plays itself, and keeps a session for
//! each. Half of the clients say goodbye; the others just hang up. At the end it prints its memory.
//!
//! ```sh
//! cargo run --release --example leaky_server
//! ```

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const WORKERS: usize = 4;
const PAGES: usize = 6;

/// What the server stores about a client.
struct Session {
    client: String,
    visited: Vec<String>,
}

#[derive(Default)]
struct Sessions(Mutex<HashMap<u64, Session>>);

impl Sessions {
    fn with<R>(&self, action: impl FnOnce(&mut HashMap<u64, Session>) -> R) -> R {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a page request of a client. The first one opens its session.
    fn visit(&self, client: u64, page: &str) -> usize {
        self.with(|sessions| {
            let session = sessions.entry(client).or_insert_with(|| open_session(client));
            session.visited.push(page.to_owned());
            session.visited.len() + session.client.len()
        })
    }

    fn close(&self, client: u64) {
        self.with(|sessions| sessions.remove(&client));
    }
}

fn open_session(client: u64) -> Session {
    Session { client: format!("client {client}"), visited: Vec::with_capacity(32) }
}

/// Serves one client.
fn serve(client: TcpStream, number: u64, sessions: &Sessions) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut out = client.try_clone()?;
    for line in BufReader::new(client).lines() {
        let line = line?;
        if line == "bye" {
            sessions.close(number);
            break;
        }
        let visits = sessions.visit(number, &line);
        out.write_all(page(&line, visits).as_bytes())?;
    }
    // sessions.close(number);
    Ok(())
}

/// Returns a page of some kilobytes, on one line.
fn page(name: &str, visits: usize) -> String {
    let rows: Vec<String> = (0..40).map(|row| format!("<li>{name}, row {row}</li>")).collect();
    format!("<h1>{name}</h1><p>{visits}</p><ul>{}</ul>\n", rows.concat())
}

/// A client that requests some pages.
fn visit(server: SocketAddr, number: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    let mut pages = BufReader::new(stream.try_clone()?);
    let mut page = String::new();
    for at in 0..PAGES {
        let line = format!("/shelf/{}/book/{}\n", number % 100, number * PAGES + at);
        stream.write_all(line.as_bytes())?;
        page.clear();
        pages.read_line(&mut page)?;
    }
    if number.is_multiple_of(2) { stream.write_all(b"bye\n") } else { Ok(()) }
}

/// Returns the resident memory of the process, on Linux.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or("unknown".to_owned(), |line| line.trim().to_owned())
}

fn main() -> io::Result<()> {
    let clients = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(6000);
    let (sessions, begun, served) = (Sessions::default(), AtomicU64::new(0), AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?;
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Ok((client, _)) = listener.accept() {
                    let number = begun.fetch_add(1, Relaxed);
                    // A client that hung up is not the server's error.
                    let _ = serve(client, number, &sessions);
                    served.fetch_add(1, Relaxed);
                }
            });
        }
        let visitors: Vec<_> = (0..WORKERS)
            .map(|first| {
                scope.spawn(move || {
                    (first..clients).step_by(WORKERS).try_for_each(|number| visit(server, number))
                })
            })
            .collect();
        for visitor in visitors {
            if let Ok(Err(error)) = visitor.join() {
                eprintln!("a client failed: {error}");
            }
        }
        while served.load(Relaxed) < begun.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let open = sessions.with(|sessions| sessions.len());
        println!("{clients} clients served, {open} sessions open, {} resident", resident());
        // The workers wait for clients forever.
        std::process::exit(0)
    })
}
