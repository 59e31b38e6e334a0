//! Runs modules: WebAssembly components in a sandbox, with the host functions that they can call, and changes of modules while the service runs.
//!
//! This crate does not know the HTTP server: the server passes requests to a module, and implements [`manager::Router`].
//!
//! | module | purpose |
//! |---|---|
//! | [`modules`] | the sandbox: loads components and calls them for requests |
//! | [`manager`] | the module manager: which modules serve, and changes while the service runs |
//! | [`api`] | the host functions of components, one file for each interface |
//! | [`store`] | storage of modules for accounts |
//! | [`module_log`] | recent log entries of each module, in memory |

pub mod api;
mod log_line;
pub mod manager;
pub mod module_log;
pub mod modules;
pub mod store;
