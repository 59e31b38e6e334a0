//! The pipeline of requests, the router, the host's own routes and the API description.
//!
//! The pipeline rejects an invalid request as early as possible, and passes a valid request to a
//! handler of the host or to a module. The modules define the behavior of their own routes. The
//! crate `latchmail-transport` has the connections.
//!
//! | | |
//! |---|---|
//! | [`state`] | the state of a server: routes, rate limits and settings |
//! | [`server`] | connects the routes with the transport |
//! | `redirect` | redirects from HTTP to HTTPS |
//! | [`pipeline`] | one request, from its headers to its response |
//! | [`router`], [`route_group`], [`openapi`] | the table of routes and the API description |
//! | [`message`], [`response`] | requests and responses of handlers, headers of all responses |
//! | [`app`], [`routes`] | the state that the host's handlers share, and their routes |
//! | [`admin`] | changes of modules, for administrators and the operator's socket |
//! | [`provisioning`] | the admin API for programs of the operator |
//! | [`scim`] | users for identity providers |
//! | [`metrics`] | the listener for metrics |
//! | [`notices`] | the listener for notices of the mail server |
//! | [`auth`], [`oauth`] | the endpoints of sign-in, and of the authorization server |
//! | [`grants`] | the policies of API tokens and OAuth grants |
//! | [`holds`], [`journal`] | the owner's decisions about grants, and the changes of grants |
//! | [`profile`] | the deletion of accounts, and their security events |
//! | [`status`] | health, readiness and the API description |

pub mod access;
pub mod admin;
pub mod app;
pub mod auth;
pub mod call_error;
pub mod cors;
pub mod exports;
pub mod grants;
pub mod holds;
pub mod journal;
pub mod message;
pub mod metrics;
pub mod notices;
pub mod oauth;
pub mod openapi;
mod owner;
pub mod pipeline;
pub mod profile;
pub mod provisioning;
pub mod query;
mod rate_limit;
mod redirect;
pub mod rejection;
mod request_id;
pub mod response;
pub mod response_body;
pub mod route_group;
pub mod router;
pub mod routes;
pub mod scim;
pub mod server;
pub mod state;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;

pub use app::App;
pub use openapi::info::ApiInfo;
pub use router::RouteTable;
pub use routes::route_groups;
pub use server::serve;
pub use state::{HttpState, State};
