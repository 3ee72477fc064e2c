//! The example of a server that serves its own profile.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::files::Profile;
use crate::package;

/// Kills the server when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the body of a server's answer.
fn get(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{path}: {}", answer.escape_ascii());
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers end");
    answer.split_off(end + 4)
}

#[test]
fn a_served_profile_names_the_allocating_function() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profiled_server");
    package::build("examples/profiled_server", &target, |_| {});
    let mut command = Command::new(target.join("debug/profiled_server"));
    let server = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().expect("it starts");
    let mut server = Running(server);
    let mut line = String::new();
    let out = server.0.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("it says where it listens");
    let address = line.trim().strip_prefix("http://").expect("an address");
    // The server keeps some 40 MB.
    for note in 1..=40 {
        assert_eq!(get(address, "/note?milk"), format!("{}000 notes\n", note).as_bytes());
    }
    let profile = Profile::read(&get(address, "/debug/pprof/heap"));
    let live = profile.sums()[3];
    assert!((10 << 20..100 << 20).contains(&live), "{live}");
}
