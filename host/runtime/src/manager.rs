//! The module manager. It stores the installed modules and the version of each module that handles
//! requests, and changes this state while the service runs.
//!
//! Each change has three steps. First, the manager compiles, checks, links and tests the component,
//! and checks the routes for conflicts. Second, the manager writes the change to the database.
//! Third, the manager replaces the entries and the routes in one step. If a step fails, nothing
//! changes.
//!
//! | module | purpose |
//! |---|---|
//! | `state` | the [`ModuleManager`] and its entries, one for each module |
//! | `start` | loads the modules when the service starts |
//! | `change` | installs, enables, disables, rolls back and removes modules |
//! | `compare` | compares a new version of a module with the serving version |
//! | `policies` | the policies of modules, from the configuration |
//! | `converge` | applies the changes of other hosts |
//! | `consent` | finds the permissions that need the operator's consent |
//! | `breaker` | rolls failing modules back |
//! | `report` | the state of modules in the JSON of the API |
//!
//! The sandbox is in [`crate::modules`]. The HTTP server authorizes administrators.

mod breaker;
mod change;
pub mod compare;
mod consent;
mod converge;
mod error;
mod policies;
pub mod report;
mod router;
mod start;
mod state;

pub use change::{NewComponent, StateChange};
pub use error::Error;
pub use router::Router;
pub use state::ModuleManager;
