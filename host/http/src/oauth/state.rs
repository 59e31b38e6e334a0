//! The state of a listener with the routes of the authorization server.

use crate::app::App;
use crate::state::State;

/// The state of a listener with the routes of the authorization server. The main listener has the
/// state [`App`]. The listener at `oauth.listen` has a separate state.
pub trait OAuthState: State {
    /// Returns the state of the service.
    fn app(&self) -> &App;
}

impl OAuthState for App {
    fn app(&self) -> &App {
        self
    }
}
