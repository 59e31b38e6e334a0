//! The interface of the router that the module manager uses. The HTTP server implements the
//! interface.

use std::sync::Arc;

use latchmail_core::error::StartError;

use crate::modules::Module;

/// Routes requests to modules and to the service's own handlers.
pub trait Router: Send + Sync {
    /// Checks that the API description of a module describes exactly the module's routes.
    ///
    /// # Errors
    /// Returns an error whose text names the difference.
    fn check_description(&self, module: &Arc<Module>) -> Result<(), StartError>;

    /// Checks that no routes of these modules and of the service conflict.
    ///
    /// # Errors
    /// Returns an error if two routes conflict. The error text contains the two routes.
    fn check(&self, modules: &[Arc<Module>]) -> Result<(), StartError>;

    /// Builds a route table from the routes of these modules and of the service. The returned
    /// function makes the new table active.
    ///
    /// # Errors
    /// Returns an error if two routes conflict. The error text contains the two routes.
    fn prepare<'a>(
        &'a self,
        modules: &[Arc<Module>],
    ) -> Result<Box<dyn FnOnce() + Send + 'a>, StartError>;
}
