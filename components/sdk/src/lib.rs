//! What every Latchmail module shares: the contract, a typed router, extraction and validation, the error type, and an API description
//! that comes from the types that the handlers use.
//!
//! A module is a list of routes over the capabilities it needs, and one line that exports it:
//!
//! ```ignore
//! fn module<H: Mailbox + Caller>() -> Module<H> {
//!     Module::new("mail", env!("CARGO_PKG_VERSION"), Description::openapi)
//!         .route(Route::get("/api/v1/mail/folders", "listFolders", folders::list)
//!             .scoped(Scope::MailRead).with_oauth().area("mail"))
//! }
//!
//! latchmail_sdk::export!(module);
//! ```
//!
//! Handlers are generic over the traits of [`capability`], so the same code runs in a sandbox, where [`capability::Host`] asks the host, and in
//! plain unit tests, where a test's own type answers.

pub mod bindings;
pub mod capability;
mod description;
mod disposition;
mod export;
mod failure;
mod message;
mod module;
pub mod name;
pub mod scope;
pub mod time;

pub use description::{Failed, Succeeded};
pub use failure::Failure;
pub use latchmail_shape::Object;
pub use message::{Content, Reply, Request};
pub use module::{Handler, Module, Route};
