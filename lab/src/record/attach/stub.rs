//! A few instructions that a process executes instead of `malloc`, `calloc`, `realloc` and `free`,
//! to load the recorder: [`Stub`].
//!
//! The first thread that calls one of them calls `dlopen`, on a stack mapped for it, and then the
//! intended function. Other threads, and all later calls, jump there directly. So the library is
//! loaded where the program itself calls its allocator, never inside the C library. A forked child
//! loads nothing, because its process id differs.

use std::arch::global_asm;

use super::memory::Memory;

global_asm!(
    ".pushsection .rodata.pagewise_stub,\"a\",@progbits",
    ".p2align 4",
    "pagewise_stub:",
    ".irp function, 0, 1, 2, 3",
    ".p2align 4",
    "endbr64",
    "mov eax, 8 * \\function + {real}",
    "jmp 2f",
    ".endr",
    "2:",
    // Replaced by the address of the data.
    "movabs r11, 0x1122334455667788",
    "cmp dword ptr [r11], 0",
    "jne 9f",
    "push rax",
    "push rdi",
    "push rsi",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "mov rbx, r11",
    "mov eax, {getpid}",
    "syscall",
    "cmp eax, dword ptr [rbx + 4]",
    "jne 8f",
    "xor eax, eax",
    "mov ecx, {loading}",
    "lock cmpxchg dword ptr [rbx], ecx",
    "jne 8f",
    "mov r12, rsp",
    "mov rsp, qword ptr [rbx + {stack}]",
    // Saves `errno`.
    "call qword ptr [rbx + {errno}]",
    "mov r13, rax",
    "mov r14d, dword ptr [rax]",
    "lea rdi, [rbx + {path}]",
    "mov esi, {now}",
    "call qword ptr [rbx + {dlopen}]",
    "mov ecx, {loaded}",
    "test rax, rax",
    "jne 7f",
    "call qword ptr [rbx + {dlerror}]",
    "mov ecx, {failed}",
    "7:",
    "mov qword ptr [rbx + {answer}], rax",
    "mov dword ptr [r13], r14d",
    "mov rsp, r12",
    "xchg dword ptr [rbx], ecx",
    "8:",
    "mov r11, rbx",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "9:",
    "jmp qword ptr [r11 + rax]",
    "pagewise_stub_end:",
    ".popsection",
    real = const REAL,
    getpid = const libc::SYS_getpid,
    loading = const LOADING,
    loaded = const LOADED,
    failed = const FAILED,
    stack = const STACK,
    errno = const ERRNO,
    path = const PATH,
    now = const libc::RTLD_NOW,
    dlopen = const DLOPEN,
    dlerror = const DLERROR,
    answer = const ANSWER,
);

// Offsets in the data. The first word has the state and the process id.
const DLOPEN: usize = 8;
const DLERROR: usize = 16;
const ANSWER: usize = 24;
const STACK: usize = 32;
const ERRNO: usize = 40;
const REAL: usize = 48;
const PATH: usize = 128;

const LOADING: u32 = 1;
const LOADED: u32 = 2;
const FAILED: u32 = 3;

/// Bytes of the code, of the data before the stack, and of data and stack together.
pub(super) const CODE: usize = 4096;
const DATA: usize = 8192;
pub(super) const DATA_AND_STACK: usize = DATA + (256 << 10);
/// Number of replaced functions: the first ones of those that are recorded.
pub(super) const FUNCTIONS: usize = 4;
/// Bytes between the starts of functions.
const STEP: u64 = 16;

/// Progress of the loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Loading,
    Loaded,
    /// Address of the loader's error message.
    Failed(u64),
}

/// The functions that the stub calls.
pub(super) struct Calls {
    /// The process id in its own namespace.
    pub(super) process: u32,
    pub(super) dlopen: u64,
    pub(super) dlerror: u64,
    pub(super) errno_location: u64,
    pub(super) real: [u64; FUNCTIONS],
}

/// Returns the code, for data at an address.
pub(super) fn code(data: u64) -> Vec<u8> {
    unsafe extern "C" {
        #[link_name = "pagewise_stub"]
        static START: u8;
        #[link_name = "pagewise_stub_end"]
        static END: u8;
    }
    const MARK: [u8; 8] = 0x1122_3344_5566_7788_u64.to_le_bytes();
    let (start, end) = (&raw const START, &raw const END);
    // SAFETY: the assembler put both labels into one section, with the instructions between them.
    let code = unsafe { std::slice::from_raw_parts(start, end.addr() - start.addr()) };
    let mut code = code.to_vec();
    if let Some(at) = code.windows(8).position(|bytes| bytes == MARK) {
        code[at..at + 8].copy_from_slice(&data.to_le_bytes());
    }
    code
}

/// Returns the data, for an address.
pub(super) fn data(address: u64, calls: &Calls, path: &[u8]) -> Vec<u8> {
    let mut data = vec![0; PATH];
    data[4..8].copy_from_slice(&calls.process.to_ne_bytes());
    let stack = address + DATA_AND_STACK as u64;
    let words = [
        (DLOPEN, calls.dlopen),
        (DLERROR, calls.dlerror),
        (STACK, stack),
        (ERRNO, calls.errno_location),
    ];
    let real = calls.real.iter().enumerate().map(|(index, &real)| (REAL + index * 8, real));
    for (at, word) in words.into_iter().chain(real) {
        data[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    data.extend(path);
    data.push(0);
    data
}

/// Longest path that fits the data.
pub(super) const LONGEST_PATH: usize = DATA - PATH - 1;

/// Returns the addresses of the functions in code at an address.
pub(super) fn functions(code: u64) -> [u64; FUNCTIONS] {
    std::array::from_fn(|index| code + index as u64 * STEP)
}

/// Returns the functions of a stub, if it begins at this address.
pub(super) fn at(memory: &Memory, address: u64) -> Option<[u64; FUNCTIONS]> {
    let ours = code(0);
    let theirs = memory.read(address, ours.len()).ok()?;
    // They differ in the address of their data, a word.
    let differing = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).count();
    (differing <= size_of::<u64>()).then(|| functions(address))
}

/// Decodes the state from the first words of the data, up to the answer.
pub(super) fn state(words: &[u64]) -> State {
    match words.first().copied().unwrap_or(0) as u32 {
        LOADING => State::Loading,
        LOADED => State::Loaded,
        FAILED => State::Failed(words.get(ANSWER / 8).copied().unwrap_or(0)),
        _ => State::Waiting,
    }
}

/// Number of words that [`state`] reads.
pub(super) const STATE_WORDS: usize = ANSWER / 8 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_complete_and_has_the_address_of_its_data() {
        let code = code(0x7f00_1234_5000);
        assert!(code.len() <= CODE);
        let data = 0x7f00_1234_5000_u64.to_le_bytes();
        assert!(code.windows(8).any(|bytes| bytes == data));
        // Each function begins where `functions` says.
        for start in functions(0) {
            assert_eq!(code[start as usize..][..4], [0xf3, 0x0f, 0x1e, 0xfa]);
        }
    }
}
