//! The extensions of GNU's C library: trimming, options, and the figures of `mallinfo` and
//! `malloc_info`.

use core::ffi::c_int;
use core::fmt::{self, Write};

use crate::PAGEWISE;

/// The fields of GNU's `struct mallinfo`, all of one integer type.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Info<T> {
    arena: T,
    ordblks: T,
    smblks: T,
    hblks: T,
    hblkhd: T,
    usmblks: T,
    fsmblks: T,
    uordblks: T,
    fordblks: T,
    keepcost: T,
}

/// Fills in the bytes held by heaps, number and bytes of mappings, and the bytes on quick lists, in
/// use, and free. Numbers of free blocks stay 0.
fn info<T: Default>(number: impl Fn(usize) -> T) -> Info<T> {
    let stats = PAGEWISE.stats();
    Info {
        arena: number(stats.held.saturating_sub(stats.mapped)),
        hblks: number(stats.mappings),
        hblkhd: number(stats.mapped),
        fsmblks: number(stats.quick),
        uordblks: number(stats.live.saturating_sub(stats.mapped)),
        fordblks: number(stats.held.saturating_sub(stats.live)),
        ..Info::default()
    }
}

/// GNU's `mallinfo2`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mallinfo2() -> Info<usize> {
    info(|number| number)
}

/// GNU's `mallinfo`. Figures that do not fit into an `int` are given as its largest value.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mallinfo() -> Info<c_int> {
    info(|number| c_int::try_from(number).unwrap_or(c_int::MAX))
}

/// A stream of the C library.
struct Stream(*mut libc::FILE);

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the text is valid for reads of its length; the caller of `malloc_info` guarantees
        // that the stream is open.
        let written = unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), self.0) };
        if written == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// GNU's `malloc_info`: writes the statistics as far as its XML format has elements for them.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let stats = PAGEWISE.stats();
    let free = stats.held.saturating_sub(stats.live);
    let written = write!(
        Stream(stream),
        "<malloc version=\"1\">\n\
         <total type=\"fast\" count=\"0\" size=\"{}\"/>\n\
         <total type=\"rest\" count=\"0\" size=\"{free}\"/>\n\
         <total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n\
         <system type=\"max\" size=\"{}\"/>\n\
         </malloc>\n",
        stats.quick,
        stats.mappings,
        stats.mapped,
        stats.held,
        stats.peak_held
    );
    if written.is_ok() { 0 } else { -1 }
}

/// GNU's `malloc_trim`: gives free memory back to the system. Returns 1 if any was given back.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn malloc_trim(_keep: usize) -> c_int {
    c_int::from(PAGEWISE.purge() > 0)
}

/// GNU's `mallopt`. Returns 0, which means failure: nothing can be changed once the allocator is
/// initialised.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mallopt(_parameter: c_int, _value: c_int) -> c_int {
    0
}

/// GNU's `malloc_stats`: writes the statistics to standard error.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn malloc_stats() {
    PAGEWISE.show_stats();
}
