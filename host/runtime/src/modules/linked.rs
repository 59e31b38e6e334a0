//! A linked component, and the interfaces that its instances export.

use latchmail_bindings::exports::latchmail::host::module;
use latchmail_bindings::handlers::exports::latchmail::host::handlers;
use latchmail_bindings::handlers::{EventHandlers, EventHandlersIndices};
use latchmail_bindings::{Everything, EverythingIndices};
use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::contract::{Exports, WRONG_HANDLERS};
use super::sandbox::Sandbox;

/// A linked component, of which instances can be created.
pub(crate) struct Linked {
    pre: InstancePre<Sandbox>,
    module: Option<EverythingIndices>,
    handlers: Option<EventHandlersIndices>,
}

/// The exports of an instance.
pub(crate) struct Guest {
    module: Option<Everything>,
    handlers: Option<EventHandlers>,
}

impl Linked {
    /// Finds the functions of the interfaces in `exports`.
    pub(crate) fn new(pre: InstancePre<Sandbox>, exports: Exports) -> wasmtime::Result<Self> {
        let module = exports.module.then(|| EverythingIndices::new(&pre));
        let handlers = exports.handlers.then(|| EventHandlersIndices::new(&pre));
        Ok(Self {
            module: module.transpose()?,
            handlers: handlers.transpose()?,
            pre,
        })
    }

    /// Creates an instance in `store`, and checks the types of its exports.
    pub(crate) async fn instantiate(&self, store: &mut Store<Sandbox>) -> wasmtime::Result<Guest> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let module = self.module.as_ref();
        let module = module.map(|indices| indices.load(&mut *store, &instance));
        let handlers = self.handlers.as_ref();
        let handlers = handlers.map(|indices| indices.load(&mut *store, &instance));
        let handlers = handlers.transpose();
        Ok(Guest {
            module: module.transpose()?,
            handlers: handlers.map_err(|error| error.context(WRONG_HANDLERS))?,
        })
    }
}

impl Guest {
    /// Returns the interface of routes. Returns `None` if the component has only handlers.
    pub(crate) fn module(&self) -> Option<&module::Guest> {
        self.module.as_ref().map(Everything::latchmail_host_module)
    }

    /// Returns the interface of handlers. Returns `None` if the component has only routes.
    pub(crate) fn handlers(&self) -> Option<&handlers::Guest> {
        let handlers = self.handlers.as_ref();
        handlers.map(EventHandlers::latchmail_host_handlers)
    }
}
