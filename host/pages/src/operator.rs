//! The operator's page: HTML pages for administrators, on the separate listener `admin.listen`.
//!
//! The pages work without scripts. Only the charts of the modules need a script. An administrator
//! signs in with a password and a second factor. A cookie that only this host receives identifies
//! the session ([`visit`]). Every form contains a token against cross-site request forgery. The
//! pages change modules through the module manager, and accounts through [`latchmail_accounts`].

mod accounts;
mod domains;
mod layout;
mod limits;
mod listener;
mod log;
mod mail_server;
mod modules;
mod paths;
mod routes;
mod sign_in;
mod state;
mod visit;

pub use listener::{OperatorPage, listen};
