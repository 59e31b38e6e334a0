//! Runs modules: WebAssembly components in a sandbox, with the host functions that they can call, and their changes at run time.
//!
//! This crate does not know the HTTP server: the server passes requests to a module and tells the module manager which routes are free.
//!
//! | module | purpose |
//! |---|---|
//! | [`modules`] | the sandbox: loading components, calling one per request |
//! | [`life`] | the module manager: which modules serve, and changes while the service runs |
//! | [`api`] | the host functions of components, one file for each interface: check, convert, delegate |
//! | [`store`] | storage of modules for accounts |
//! | [`module_log`] | recent log entries of each module, in memory |

pub mod api;
pub mod life;
pub mod module_log;
pub mod modules;
pub mod store;
