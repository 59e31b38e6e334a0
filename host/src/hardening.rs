//! Protection of the process's memory, which holds keys, passwords and mail.
//!
//! It keeps memory out of core dumps and away from other processes of the same user. It does not protect against root.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Disables core dumps for this process and the processes that it starts.
///
/// # Errors
/// That of the system, which has none for lowering a limit.
pub fn disable_core_dumps() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Keeps other processes of the same user from reading this one's memory. Processes that it starts are not affected.
///
/// Must be called after the engine of the modules was made: wasmtime opens `/proc/self/pagemap` then, which a process of another user than root cannot do
/// afterwards. Without it every call of a module takes 100 µs more.
///
/// # Errors
/// That of the system.
pub fn deny_memory_access() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
