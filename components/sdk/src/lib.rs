//! What a Latchmail module is written with: a typed router, extraction and validation, the error type, an API description that comes from the types
//! that the handlers use, the capabilities of the host, and a host for tests.
//!
//! A module is a list of routes over the capabilities it needs, and one line that exports it:
//!
//! ```
//! use latchmail_sdk::capability::{Caller, Scope, Store};
//! use latchmail_sdk::{Failure, Module, Reply, Request, Route, stored};
//! use serde::{Deserialize, Serialize};
//! use utoipa::{OpenApi, ToSchema};
//!
//! /// A number that the caller counts up.
//! #[derive(Serialize, Deserialize, ToSchema)]
//! struct Count {
//!     count: u32,
//! }
//!
//! /// Count up
//! #[utoipa::path(post, path = "/api/v1/count", operation_id = "countUp", responses((status = 200, body = Count)))]
//! fn count_up(host: &(impl Caller + Store), _: &Request) -> Result<Reply, Failure> {
//!     let counted = stored::change(host, "count", |was: Option<Count>| {
//!         Some(Count { count: was.map_or(0, |was| was.count) + 1 })
//!     });
//!     Reply::json(&counted.map_err(|error| Failure::of(error, "Not found", host))?)
//! }
//!
//! #[derive(OpenApi)]
//! #[openapi(paths(count_up))]
//! struct Description;
//!
//! fn module<H: Caller + Store>() -> Module<H> {
//!     Module::new("count", env!("CARGO_PKG_VERSION"), Description::openapi)
//!         .route(Route::post("/api/v1/count", "countUp", count_up))
//! }
//!
//! latchmail_sdk::export!(module);
//!
//! let service = latchmail_sdk::testing::Service::of(module());
//! let nothing: [u8; 0] = [];
//! assert_eq!(service.ask("POST", "/api/v1/count", &[], nothing.into()).succeeds(200)["count"], 1);
//! ```
//!
//! | Where | What |
//! |---|---|
//! | [`Module`], [`Route`] | the list of routes: who may call each, what it takes, how long it may take |
//! | [`Request`], [`Reply`], [`Failure`] | what a handler is given, and what it answers |
//! | [`capability`] | what it may ask of the host, one trait an interface of the contract |
//! | [`stored`] | values of the module's own types, kept for each account |
//! | [`testing`] | the module's routes in plain unit tests |
//! | [`scope`], [`time`], [`name`] | scopes by their names, instants in text, names that nobody guesses |
//! | [`bindings`] | the contract as it was generated, for what this crate does not cover |
//!
//! Handlers are generic over the traits of [`capability`], so the same code runs in a sandbox, where [`capability::Host`] asks the host, and in
//! plain unit tests, where [`testing::FakeHost`] or a test's own type answers. A component imports what its handlers name and nothing else: the traits
//! in a handler's signature are the list of what its operator is asked to grant.
//!
//! # What a module has to know
//!
//! - Each request runs in a sandbox of its own, which is gone afterwards: a `static` is as it was at the beginning. What is to be kept goes into
//!   the [`Store`](capability::Store). (An operator may allow a sandbox to serve several requests, one after the other; nothing may depend on it.)
//! - Every capability acts for the caller of the request at hand, and no function takes an account. What the caller's credential may not, the host
//!   refuses, whatever the route declared.
//! - There are no files, no environment, no sockets and no threads. What is written to the standard output goes to the host's log.
//! - A panic ends the request with status 500, and no other request.
//! - The contract grows: a module runs on any host of the same major version that is not older than what it was built against.

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
pub mod stored;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
pub mod time;

pub use description::{Failed, Succeeded};
pub use failure::Failure;
pub use latchmail_shape::Object;
pub use message::{Content, Paging, Reply, Request};
pub use module::{Handler, Module, Route};
