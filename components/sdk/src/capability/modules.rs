//! `latchmail:host/modules`: the modules that can act for the caller without a request.

use super::{Error, Host};
use crate::bindings::latchmail::host::modules;
pub use crate::bindings::latchmail::host::modules::{HandledEvents, ModuleTimer, OwnerModule};

/// The modules that can act for the caller without a request. Every function needs a web session.
pub trait OwnerModules {
    /// Returns the modules, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the modules cannot be read.
    fn list_owner_modules(&self) -> Result<Vec<OwnerModule>, Error>;

    /// Lets a module act for the caller, or not. Events from before the call are not delivered to a
    /// module that is enabled.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if no module with this name can act for the caller.
    fn set_module_enabled(&self, name: &str, enabled: bool) -> Result<OwnerModule, Error>;
}

impl OwnerModules for Host {
    fn list_owner_modules(&self) -> Result<Vec<OwnerModule>, Error> {
        modules::list()
    }

    fn set_module_enabled(&self, name: &str, enabled: bool) -> Result<OwnerModule, Error> {
        modules::set_enabled(name, enabled)
    }
}
