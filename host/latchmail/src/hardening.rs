//! Protection of the process's memory, which holds keys, passwords and mail.
//!
//! It keeps memory out of core dumps and away from other processes of the same user. It does not protect against root.

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
/// Must be called after the engine of the modules was made: Wasmtime opens `/proc/self/pagemap` at that time, and a process of a user other than root
/// can no longer open it afterwards. Without that file every call of a module takes 100 µs more.
///
/// # Errors
/// Returns the error of the operating system.
pub(crate) fn deny_memory_access() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
