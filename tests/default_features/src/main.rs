//! A program under `Pagewise` with the library's default features.
//!
//! Without the feature `guarded` a free in Rust does not look at the block's address: it pushes the
//! block on the quick list of its size. So this program frees small blocks that are mappings, and
//! blocks of other threads, and frees one twice.

use std::alloc::{GlobalAlloc, Layout};
use std::process::Command;
use std::sync::mpsc;

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// A small block. No list has room for as many as this program frees.
const SMALL: Layout = Layout::new::<[u8; 64]>();

fn main() {
    if std::env::args().nth(1).is_some() {
        return free_twice();
    }
    exchange();
    free_small_mappings();
    misuse_stops_the_program();
    println!("as usual");
}

/// Sends strings from thread to thread, whose contents must arrive.
fn exchange() {
    let (sender, receiver) = mpsc::channel();
    let text = |n: usize| n.to_string().repeat(1 + n % 90);
    let send = move |thread: usize| {
        let sender = sender.clone();
        let numbers = (0..20_000).map(move |n| n * thread);
        std::thread::spawn(move || numbers.for_each(|n| sender.send((n, text(n))).unwrap()))
    };
    let threads: Vec<_> = (1..4).map(send).collect();
    let received = receiver.into_iter().inspect(|(n, string)| assert_eq!(*string, text(*n)));
    assert_eq!(received.count(), 60_000);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// Occupies the addresses where heaps would grow, so that small blocks become mappings, and frees
/// these with their size.
fn free_small_mappings() {
    /// No two blocks in heaps are further apart.
    const WINDOW: usize = 6 << 40;
    const MOST: usize = 10_000_000;
    let first = allocate();
    // Allocated before, so that no larger block becomes a mapping for want of room as well.
    let mut blocks = Vec::with_capacity(MOST);
    blocks.push(first);
    let occupied = occupy(first.addr() - WINDOW..first.addr() + WINDOW);
    let mut mappings = 0;
    while mappings < 2000 {
        assert!(blocks.len() < MOST, "small blocks are in heaps still");
        let block = allocate();
        mappings += usize::from(block.addr().abs_diff(first.addr()) > WINDOW);
        blocks.push(block);
    }
    for (n, block) in blocks.iter().enumerate() {
        // SAFETY: the block is in use, and has this many bytes.
        unsafe { block.write_bytes(n as u8, SMALL.size()) };
    }
    for (n, block) in blocks.into_iter().enumerate() {
        // SAFETY: the block is in use, has this size, and is not used afterwards.
        unsafe {
            let bytes = std::slice::from_raw_parts(block, SMALL.size());
            assert!(bytes.iter().all(|byte| *byte == n as u8), "no other block lies there");
            ALLOCATOR.dealloc(block, SMALL);
        }
    }
    for (memory, len) in occupied {
        // SAFETY: the addresses were occupied above.
        unsafe { libc::munmap(memory, len) };
    }
    exchange();
}

/// Allocates a small block.
fn allocate() -> *mut u8 {
    // SAFETY: the size is not 0.
    let block = unsafe { ALLOCATOR.alloc(SMALL) };
    assert!(!block.is_null());
    block
}

/// Occupies all addresses of a range where nothing is mapped, in pieces of 64 KiB or more.
fn occupy(range: std::ops::Range<usize>) -> Vec<(*mut libc::c_void, usize)> {
    const PIECE: usize = 64 << 10;
    let (mut occupied, mut left) = (Vec::with_capacity(10_000), Vec::with_capacity(10_000));
    left.push((range.start / PIECE * PIECE, range.len().next_power_of_two()));
    while let Some((start, len)) = left.pop() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let flags = flags | libc::MAP_FIXED_NOREPLACE;
        let at = std::ptr::without_provenance_mut(start);
        // SAFETY: a mapping that replaces no other.
        let memory = unsafe { libc::mmap(at, len, libc::PROT_NONE, flags, -1, 0) };
        if memory == at {
            occupied.push((memory, len));
        } else if len > PIECE {
            left.extend([(start, len / 2), (start + len / 2, len / 2)]);
        }
    }
    occupied
}

/// Runs [`free_twice`] in a process of its own, which must end with a line that names the fault.
fn misuse_stops_the_program() {
    let program = std::env::current_exe().expect("it is known");
    let run = Command::new(program).arg("twice").output().expect("it starts");
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && message.contains("freed twice"), "{message}");
}

/// Frees a block that is on its list already.
fn free_twice() {
    let block = allocate();
    // SAFETY: this is the misuse to be stopped.
    unsafe {
        ALLOCATOR.dealloc(block, SMALL);
        ALLOCATOR.dealloc(block, SMALL);
    }
}
