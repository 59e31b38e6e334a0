//! The state of a listener with the routes of module administration.

use latchmail_core::caller::Origin;

use crate::app::App;
use crate::message::Request;
use crate::state::State;

/// The state of a listener with the routes of module administration. The main listener has the
/// state [`App`]. The operator's socket has a separate state.
pub trait AdminState: State {
    /// Returns the service whose modules the routes manage.
    fn app(&self) -> &App;

    /// Returns the origin of a request for the audit log.
    fn origin(&self, request: &Request) -> Origin;
}

impl AdminState for App {
    fn app(&self) -> &App {
        self
    }

    fn origin(&self, request: &Request) -> Origin {
        request.origin()
    }
}
