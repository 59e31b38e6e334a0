//! Protects the memory of the process, which contains keys, passwords and mail. Core dumps are
//! disabled, and other processes of the same user cannot read the memory.
//!
//! This module does not protect the memory from root.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Disables core dumps for this process and for its child processes.
///
/// # Errors
/// Returns an error if the operating system rejects the new limit. Processes are normally allowed
/// to lower their own limits.
pub(crate) fn disable_core_dumps() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Denies other processes of the same user access to this process's memory. Does not protect the
/// memory of child processes.
///
/// Call this function after the creation of the Wasmtime engine, which opens `/proc/self/pagemap`.
/// After this call, a process without root rights cannot open this file. Without this file, every
/// call of a module takes 100 µs longer.
///
/// # Errors
/// Returns an error if the operating system rejects the setting.
pub(crate) fn deny_memory_access() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
