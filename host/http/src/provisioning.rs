//! The admin API: accounts, domains, aliases, modules and grants for programs of the operator, at
//! `/admin/api/v1` on the listener `admin.listen`. Requests need an operator token. Nothing here
//! reads mail.

mod accounts;
mod aliases;
mod description;
mod domains;
mod events;
mod grants;
mod modules;
pub(crate) mod request;
pub(crate) mod routes;
mod state;

pub use request::origin_url;
pub use routes::route_group;
pub use state::OperatorState;
