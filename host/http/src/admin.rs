//! Administration of modules while the service runs. Administrators use the routes under
//! `/api/v1/admin/modules`. The operator uses the same routes over a Unix socket ([`socket`]). The
//! module manager ([`latchmail_runtime::manager`]) checks and makes the changes.

mod change;
mod compare;
mod handlers;
mod inspect;
mod install;
mod list;
mod log;
mod request;
mod routes;
pub mod socket;
mod state;

pub use routes::route_group;
pub use state::AdminState;

/// The maximum total size of the components of a request, in MiB.
pub const LARGEST_COMPONENTS_MIB: u64 = 95;
