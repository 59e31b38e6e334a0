//! The state of a listener that serves the authorization server.

use crate::app::App;
use crate::state::State;

/// The state of a listener that serves the authorization server. For the main listener this is [`App`]. The separate listener at `oauth.listen` has its own
/// state.
pub trait OAuthState: State {
    /// Returns the state of the service.
    fn app(&self) -> &App;
}

impl OAuthState for App {
    fn app(&self) -> &App {
        self
    }
}
