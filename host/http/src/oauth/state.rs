//! The state of a listener that serves the authorization server.

use crate::app::App;
use crate::state::State;

/// The state of a listener that serves the authorization server: [`App`] for the main listener, or the state of the listener at `oauth.listen`.
pub trait OAuthState: State {
    /// Returns the state of the service.
    fn app(&self) -> &App;
}

impl OAuthState for App {
    fn app(&self) -> &App {
        self
    }
}
