//! The module manager: knows which modules are installed and which version of each serves, and changes this while the service runs.
//!
//! A change is prepared first: the component is compiled, checked against its policy, linked and tested, and its routes are checked for conflicts. The
//! change is then written to the database, and one pointer is swapped. If a step fails, nothing changes.
//!
//! | module | purpose |
//! |---|---|
//! | `state` | the [`ModuleManager`] and its entries, one for each module |
//! | `start` | loads the modules when the service starts |
//! | `change` | installs, enables, disables, rolls back and removes modules |
//! | `policies` | the policies of modules, from the configuration |
//! | `consent` | finds the permissions that need the operator's consent |
//! | `breaker` | rolls failing modules back |
//! | `report` | the state of modules in the JSON of the API |
//!
//! The sandbox is in [`crate::modules`]. The HTTP server authorizes administrators.

mod breaker;
mod change;
mod consent;
mod error;
mod policies;
pub mod report;
mod router;
mod start;
mod state;

pub use error::Error;
pub use router::Router;
pub use state::ModuleManager;
