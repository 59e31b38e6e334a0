//! A library for `LD_PRELOAD` that counts the memory allocations and the copied bytes of a program.
//! `./just bench --profile` uses it.
//!
//! The library replaces these functions of the C library:
//!
//! - `malloc`, `calloc`, `realloc`, `posix_memalign`, `aligned_alloc` and `free`. Each call except
//!   `free` counts as one allocation. The memory comes from mimalloc. The allocator of the service
//!   is jemalloc.
//! - `memcpy` and `memmove`. Their lengths count as copied bytes.
//!
//! The library does not count copies that the compiler replaces by instructions, copies in the
//! sandbox, copies by the kernel, and copies inside the C library. It does not count the
//! allocations of a program that contains its own allocator.
//!
//! The counters are in the file that the environment variable `BENCH_COUNTERS` names: two 64-bit
//! integers in the byte order of the machine, the allocations and then the copied bytes. The file
//! must exist and have a length of 16 bytes. Without this file, the counters are not readable.
//!
//! # Safety
//!
//! Every exported function has the same parameters, result and preconditions as the function of the
//! C library that it replaces.
//!
//! - `memcpy` and `memmove` pass their arguments to `__memmove_chk`, which copies like `memmove`.
//! - All functions that allocate or free use mimalloc, so mimalloc frees only its own memory.
//! - The functions do not allocate memory themselves and do not wait, so they can be called at any
//!   time, also before [`open_file`].
//! - `COUNTERS` always points to counters that are never deallocated.

#![no_builtins]
#![expect(
    unsafe_code,
    reason = "functions of the C library have no safe interface"
)]

use std::ffi::{c_int, c_void};
use std::fs::OpenOptions;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use libmimalloc_sys::{mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_zalloc};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// The content of the file.
#[repr(C)]
struct Counters {
    allocations: AtomicU64,
    copied_bytes: AtomicU64,
}

/// The counters until the file is open, and without a file.
static UNPUBLISHED: Counters = Counters {
    allocations: AtomicU64::new(0),
    copied_bytes: AtomicU64::new(0),
};

/// The counters that are in use.
static COUNTERS: AtomicPtr<Counters> = AtomicPtr::new(ptr::from_ref(&UNPUBLISHED).cast_mut());

/// The dynamic linker calls `open_file` before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static INITIALIZER: extern "C" fn() = open_file;

unsafe extern "C" {
    /// The variant of `memmove` with a check: it ends the process if `length` is greater than
    /// `limit`. The C library exports no other name of `memmove`.
    fn __memmove_chk(
        to: *mut c_void,
        from: *const c_void,
        length: usize,
        limit: usize,
    ) -> *mut c_void;
}

/// Maps the file, and uses the counters in it from now on.
extern "C" fn open_file() {
    let Some(path) = std::env::var_os("BENCH_COUNTERS") else {
        return;
    };
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return;
    };
    let length = size_of::<Counters>();
    if file
        .metadata()
        .is_ok_and(|found| found.len() == length as u64)
    {
        // SAFETY: the kernel selects an unused address.
        let mapped = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        if let Ok(mapped) = mapped {
            // The mapping is aligned to a page and is never removed.
            COUNTERS.store(mapped.cast(), Ordering::Release);
        }
    }
}

fn counters() -> &'static Counters {
    // SAFETY: the pointer is valid and aligned until the end of the process, and the counters are
    // atomic.
    unsafe { &*COUNTERS.load(Ordering::Acquire) }
}

fn count_allocation() {
    counters().allocations.fetch_add(1, Ordering::Relaxed);
}

/// The maximum length of an object. The limit must not be `usize::MAX`: the optimizer would replace
/// the call by `memmove`, which would call itself.
const LIMIT: usize = usize::MAX / 2;

/// Copies memory that may overlap, and counts the bytes.
///
/// # Safety
/// As for `memmove`.
unsafe fn copy(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void {
    counters()
        .copied_bytes
        .fetch_add(length as u64, Ordering::Relaxed);
    // SAFETY: the caller guarantees the preconditions of `memmove`. No object is longer than the
    // limit.
    unsafe { __memmove_chk(to, from, length, LIMIT) }
}

/// Replaces `memcpy`.
///
/// # Safety
/// As for `memcpy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(
    to: *mut c_void,
    from: *const c_void,
    length: usize,
) -> *mut c_void {
    // SAFETY: the preconditions of `memcpy` include those of `memmove`.
    unsafe { copy(to, from, length) }
}

/// Replaces `memmove`.
///
/// # Safety
/// As for `memmove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(
    to: *mut c_void,
    from: *const c_void,
    length: usize,
) -> *mut c_void {
    // SAFETY: the same function.
    unsafe { copy(to, from, length) }
}

/// Replaces `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    count_allocation();
    // SAFETY: every size is allowed.
    unsafe { mi_malloc(size) }
}

/// Replaces `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    count_allocation();
    match count.checked_mul(size) {
        // SAFETY: every size is allowed.
        Some(size) => unsafe { mi_zalloc(size) },
        None => ptr::null_mut(),
    }
}

/// Replaces `realloc`.
///
/// # Safety
/// As for `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    count_allocation();
    // SAFETY: the pointer is null or comes from mimalloc, because this library replaces all
    // functions that allocate.
    unsafe { mi_realloc(pointer, size) }
}

/// Replaces `free`.
///
/// # Safety
/// As for `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: the pointer is null or comes from mimalloc, because this library replaces all
    // functions that allocate.
    unsafe { mi_free(pointer) }
}

/// Replaces `aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    count_allocation();
    // SAFETY: every size is allowed. The result is null if the alignment is not supported.
    unsafe { mi_malloc_aligned(size, alignment) }
}

/// Replaces `posix_memalign`.
///
/// # Safety
/// As for `posix_memalign`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    /// `ENOMEM`.
    const OUT_OF_MEMORY: c_int = 12;
    let pointer = aligned_alloc(alignment, size);
    if pointer.is_null() {
        return OUT_OF_MEMORY;
    }
    // SAFETY: the caller passes a pointer to which the result can be written.
    unsafe { result.write(pointer) };
    0
}
