//! The router, as the module manager uses it. The HTTP server implements it.

use std::sync::Arc;

use latchmail_core::error::StartError;

use crate::modules::Module;

/// Routes requests to modules and to the service's own handlers.
pub trait Router: Send + Sync {
    /// Checks that the routes of these modules and of the service do not conflict.
    ///
    /// # Errors
    /// Returns a sentence that names both conflicting routes.
    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError>;

    /// Builds the route table of these modules and of the service. The returned function replaces the current table.
    ///
    /// # Errors
    /// Returns a sentence that names both conflicting routes.
    fn prepare<'a>(
        &'a self,
        modules: &[Arc<Module>],
    ) -> Result<Box<dyn FnOnce() + Send + 'a>, StartError>;
}
