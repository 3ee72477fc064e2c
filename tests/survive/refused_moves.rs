//! A program may advise the kernel on a part of a block, which splits the block's mapping. The
//! kernel refuses to enlarge a split mapping, and some kernels unmap the destination before they
//! refuse. The allocator then unmapped the destination again, even if another thread had mapped it
//! by then; on other kernels it did not unmap it at all.

use crate::ALLOCATOR;
use crate::child::passes_when;

#[test]
fn the_destination_of_a_refused_move_is_unmapped() {
    passes_when("refused_moves::in_pieces", |command| {
        command.env("PAGEWISE_MAPPING_FROM", "1M");
    });
}

const MIB: usize = 1 << 20;

#[test]
#[ignore = "in a process of its own"]
fn in_pieces() {
    let grow = || {
        let mut block = vec![1_u8; 2 * MIB];
        let middle = block[MIB..].as_mut_ptr();
        let page = middle.map_addr(|address| address & !(os_page() - 1));
        // SAFETY: the page is within the block, and only core dumps are affected.
        assert_eq!(unsafe { libc::madvise(page.cast(), os_page(), libc::MADV_DONTDUMP) }, 0);
        block.reserve_exact(MIB - os_page());
        assert!(block.iter().all(|&byte| byte == 1));
    };
    grow();
    ALLOCATOR.purge();
    let before = addresses();
    for _ in 0..50 {
        grow();
    }
    ALLOCATOR.purge();
    let more = addresses().saturating_sub(before);
    assert!(more < 16 * MIB, "{} MiB of addresses more", more >> 20);
}

/// Returns the bytes of address space that this process has mapped.
fn addresses() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = statm.split(' ').next().and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * os_page()
}

fn os_page() -> usize {
    // SAFETY: a plain query.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
