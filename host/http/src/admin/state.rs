//! The state of a listener that serves the routes of module administration.

use latchmail_core::caller::Origin;

use crate::app::App;
use crate::message::Request;
use crate::state::State;

/// The state of a listener that serves the routes of module administration. For the main listener this is [`App`]. The operator's socket has its own state.
pub trait AdminState: State {
    /// Returns the service whose modules the routes manage.
    fn app(&self) -> &App;

    /// Returns the origin of a request, which is recorded in the audit log.
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
