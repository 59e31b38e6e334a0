//! Changes of modules at run time: the routes under `/api/v1/admin/modules` for administrators, and the same routes over a Unix socket for the operator
//! ([`socket`]). The changes and their rules are in [`latchmail_runtime::manager`].

mod change;
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
