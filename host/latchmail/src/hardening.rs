//! Protects the memory of the process, which contains keys, passwords and mail, from core dumps and from other processes of the same user.
//!
//! The memory is not protected from root.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Disables core dumps for this process and the processes that it starts.
///
/// # Errors
/// Returns the error of the operating system. Lowering a limit does not fail.
pub(crate) fn disable_core_dumps() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Denies other processes of the same user access to this process's memory. Processes that this one starts are not affected.
///
/// Must be called after the engine of the modules is created. Wasmtime then opens `/proc/self/pagemap`, which a process of a user other than root cannot open
/// after this call. Without that file, every call of a module takes 100 µs longer.
///
/// # Errors
/// Returns the error of the operating system.
pub(crate) fn deny_memory_access() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
