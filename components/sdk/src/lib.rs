//! SDK for Latchmail modules. The SDK contains a typed router, input validation, an error type, the
//! host's capabilities, and a fake host for tests. The SDK also generates an API description from
//! the types of the handlers.
//!
//! A module is a list of routes. The handlers declare the needed capabilities. One line exports the
//! module:
//!
//! ```
//! use latchmail_sdk::capability::{Caller, Scope, Store};
//! use latchmail_sdk::{Failure, Module, Reply, Request, Route, codes, stored};
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
//! #[utoipa::path(
//!     post, path = "/api/v1/count", operation_id = "countUp",
//!     responses((status = 200, body = Count))
//! )]
//! fn count_up(host: &(impl Caller + Store), _: &Request) -> Result<Reply, Failure> {
//!     let counted = stored::change(host, "count", |was: Option<Count>| {
//!         Some(Count { count: was.map_or(0, |was| was.count) + 1 })
//!     });
//!     let missing = (codes::NOT_FOUND, "Not found");
//!     Reply::json(&counted.map_err(|error| Failure::of(error, missing, host))?)
//! }
//!
//! #[derive(OpenApi)]
//! #[openapi(paths(count_up))]
//! struct Description;
//!
//! fn module<H: Caller + Store>() -> Module<H> {
//!     Module::new("count", env!("CARGO_PKG_VERSION"), Description::openapi)
//!         .route(Route::new("countUp", count_up))
//! }
//!
//! latchmail_sdk::export!(module);
//!
//! let service = latchmail_sdk::testing::Service::of(module());
//! let nothing: [u8; 0] = [];
//! let response = service.request("POST", "/api/v1/count", &[], nothing.into());
//! assert_eq!(response.succeeds(200)["count"], 1);
//! ```
//!
//! | Where | What |
//! |---|---|
//! | [`Module`], [`Route`] | the list of routes, with access, body and deadline of each |
//! | [`Handlers`], [`Event`], [`Outcome`] | functions for events and timers, without a request |
//! | [`Request`], [`Reply`], [`Failure`] | the input and the output of a handler |
//! | [`Code`], [`codes`] | the codes of errors |
//! | [`capability`] | the host's functions, one trait per interface of the contract |
//! | [`stored`] | values of the module's own types, stored per account |
//! | [`testing`] | calls the module's routes in unit tests |
//! | [`scope`], [`time`], [`name`] | scopes by name, times as text, random names |
//! | [`bindings`] | the generated bindings of the contract, for all that is not covered here |
//!
//! Handlers are generic over the traits of [`capability`], so the same code runs in a sandbox and
//! in unit tests. In a sandbox, [`capability::Host`] calls the real host. In a unit test,
//! [`testing::FakeHost`] or a type of the test implements the traits. A component imports only the
//! interfaces whose traits its handlers use. The operator must grant these interfaces to the
//! module.
//!
//! # What authors of modules need to know
//!
//! - Each request runs in a new sandbox, so a `static` has its initial value in every request. Use
//!   the [`Store`](capability::Store) for persistent data. An operator can allow a sandbox to
//!   process several requests in sequence, but a module must not depend on this setting.
//! - Every capability uses the account of the request's caller, so no function has an account
//!   argument. The host refuses all calls that the caller's credential does not permit, even if the
//!   route accepts the caller.
//! - There are no files, no environment variables, no sockets and no threads. Output to standard
//!   output goes to the host's log.
//! - A panic ends the request with status 500. Other requests are not affected.
//! - A minor version of the contract only adds to the contract. The host and the module must use
//!   the same major version of the contract. The host's version must not be older than the module's
//!   version.

pub mod bindings;
pub mod capability;
mod conditions;
mod description;
mod disposition;
mod export;
mod failure;
mod handlers;
mod message;
mod module;
pub mod name;
mod range;
pub mod scope;
pub mod stored;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
pub mod time;

pub use conditions::EntityTags;
pub use description::{Failed, Succeeded};
pub use failure::Failure;
pub use handlers::{Event, EventHandler, Handlers, Outcome, TimerHandler};
pub use latchmail_shape::{Code, Object, codes};
pub use message::{Content, Paging, Reply, Request};
pub use module::{Handler, Module, Route};
