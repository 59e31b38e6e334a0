//! SCIM 2.0 for identity providers (RFC 7643, RFC 7644), at `/scim/v2` on the listener of the
//! operator's page or on `scim.listen`. A user is an account. Requests need an operator token with
//! the scope `scim`. There are no groups, and nothing here reads mail.
//!
//! | | |
//! |---|---|
//! | `users` | the operations on users |
//! | `user` | the representation of an account as a user |
//! | `patch` | the operations of `PATCH`, in the forms of Microsoft Entra ID and Okta |
//! | `filter` | the filters of lists |
//! | `attributes` | the selection of the attributes of a response |
//! | `discovery` | the configuration, the resource types and the schemas |
//! | `error` | errors in the format of SCIM |

mod attributes;
mod discovery;
mod error;
mod filter;
mod listener;
mod patch;
mod routes;
mod user;
mod users;

pub use error::render_error;
pub use listener::{ScimServer, listen};
pub use routes::route_group;

/// The media type of SCIM (RFC 7644, section 8.1).
const MEDIA_TYPE: &str = "application/scim+json";
/// The path of all resources.
const BASE: &str = "/scim/v2";
/// The schema of users (RFC 7643, section 4.1).
const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
