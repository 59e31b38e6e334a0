//! Runs modules. A module is a WebAssembly component in a sandbox. This crate contains the sandbox,
//! the host functions for modules, and the module manager.
//!
//! This crate does not depend on the HTTP server. The server passes requests to modules, and
//! implements [`manager::Router`].
//!
//! | module | purpose |
//! |---|---|
//! | [`modules`] | the sandbox: loads components and calls them for requests |
//! | [`manager`] | decides which modules serve, and changes them while the service runs |
//! | [`api`] | the host functions of components, one file for each interface |
//! | [`owner_modules`] | the switch with which owners let modules act without a request |
//! | [`module_log`] | recent log entries of each module, in memory |

pub mod api;
mod log_line;
pub mod manager;
pub mod module_log;
pub mod modules;
pub mod owner_modules;
