//! The operations of the host under `/api/v1/profile`: the deletion of the account and its security
//! events. The module `credentials` has the other routes of the profile. These operations are not
//! host functions of modules, because no module needs them, and a module that can delete accounts
//! would be a risk.

mod delete;
pub mod events;
mod routes;

pub use routes::route_group;
