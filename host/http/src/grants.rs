//! The routes for the policies of API tokens and OAuth grants. They are routes of the host, so that
//! no module can read or change a policy in the name of the owner.

mod policy;
mod routes;

pub use routes::route_group;
