//! A server that serves a profile of the code that allocated its memory, as Go programs do:
//!
//! ```sh
//! cargo run --release -- 127.0.0.1:8080
//! curl http://localhost:8080/note?milk              # it keeps a note
//! go tool pprof -top http://localhost:8080/debug/pprof/heap
//! ```
//! The profile should not be public: a real server should serve it on a separate port.

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::sync::Mutex;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use pagewise::Pagewise;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Mean number of bytes between samples.
const RATE: usize = 512 << 10;

/// The notes, which the server never frees; they show in the profile.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> Result<(), Box<dyn Error>> {
    ALLOCATOR.profiler().start(RATE)?;
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    tokio::runtime::Builder::new_multi_thread().enable_io().build()?.block_on(serve(&address))
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            if let Err(error) = connection.await {
                eprintln!("{error}");
            }
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = match request.uri().path() {
        "/note" => Response::new(take_note(request.uri().query().unwrap_or_default()).into()),
        "/debug/pprof/heap" => profile(),
        _ => with_status(StatusCode::NOT_FOUND, "there are /note and /debug/pprof/heap\n"),
    };
    Ok(response)
}

fn with_status(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

/// Stores a note a thousand times.
#[inline(never)]
fn take_note(text: &str) -> String {
    let mut notes = NOTES.lock().expect("nobody panics with it");
    notes.extend((0..1000).map(|number| format!("{number}: {text:.>1000}")));
    format!("{} notes\n", notes.len())
}

/// Returns the heap profile.
fn profile() -> Response<Full<Bytes>> {
    let mut file = Vec::new();
    match ALLOCATOR.profiler().write(&mut file) {
        Ok(()) => {
            let mut response = Response::new(Full::new(file.into()));
            let kind = "application/octet-stream".parse().expect("a media type");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(error) => with_status(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
