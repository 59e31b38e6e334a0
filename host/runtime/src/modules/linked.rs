//! A linked component, and the interfaces that its instances export: those of a module, and that of
//! a standard component, which is mounted ([`super::mount`]).

use std::sync::Arc;

use latchmail_bindings::exports::latchmail::host::module;
use latchmail_bindings::handlers::exports::latchmail::host::handlers;
use latchmail_bindings::handlers::{EventHandlers, EventHandlersIndices};
use latchmail_bindings::{Everything, EverythingIndices};
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::add_only_http_to_linker_async;
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyIndices};

use super::mount::Mount;

/// The context of an error about the types of handlers. The error itself, which has the same
/// beginning, does not name the interface.
pub(crate) const WRONG_HANDLERS: &str = "failed to convert functions of `handlers`";

/// The interfaces of the contract that a component exports. There is at least one of them, unless
/// the component is mounted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exports {
    /// Whether the component exports `module`, and so has routes.
    pub(crate) module: bool,
    /// Whether the component exports `handlers`.
    pub(crate) handlers: bool,
}

/// A linked component, of which instances can be created.
pub(crate) struct Linked<T: 'static> {
    pre: InstancePre<T>,
    module: Option<EverythingIndices>,
    handlers: Option<EventHandlersIndices>,
    standard: Option<ProxyIndices>,
    /// The path at which a standard component is mounted. Otherwise empty.
    mount: Arc<str>,
}

/// The exports of an instance.
pub(crate) struct Guest {
    module: Option<Everything>,
    handlers: Option<EventHandlers>,
    standard: Option<Proxy>,
    mount: Arc<str>,
}

impl<T: WasiHttpView + 'static> Linked<T> {
    /// Links a component, and finds the functions of the interfaces in `exports`. A mounted
    /// component is also linked with the interfaces of `wasi:http`.
    pub(crate) fn new(
        mut linker: Linker<T>,
        component: &Component,
        exports: Exports,
        mount: Option<&Mount>,
    ) -> wasmtime::Result<Self> {
        if mount.is_some() {
            add_only_http_to_linker_async(&mut linker)?;
        }
        let pre = linker.instantiate_pre(component)?;
        let module = exports.module.then(|| EverythingIndices::new(&pre));
        let handlers = exports.handlers.then(|| EventHandlersIndices::new(&pre));
        let standard = mount.map(|_| ProxyIndices::new(&pre));
        Ok(Self {
            module: module.transpose()?,
            handlers: handlers.transpose()?,
            standard: standard.transpose()?,
            mount: mount.map_or("", |mount| mount.path.as_str()).into(),
            pre,
        })
    }

    /// Returns whether the component exports `module`, and so has routes of its own.
    pub(crate) fn exports_module(&self) -> bool {
        self.module.is_some()
    }

    /// Creates an instance in `store`, and checks the types of its exports.
    pub(crate) async fn instantiate(&self, store: &mut Store<T>) -> wasmtime::Result<Guest> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let module = self.module.as_ref();
        let module = module.map(|indices| indices.load(&mut *store, &instance));
        let handlers = self.handlers.as_ref();
        let handlers = handlers.map(|indices| indices.load(&mut *store, &instance));
        let handlers = handlers.transpose();
        let standard = self.standard.as_ref();
        let standard = standard.map(|indices| indices.load(&mut *store, &instance));
        let standard = standard.transpose();
        Ok(Guest {
            module: module.transpose()?,
            handlers: handlers.map_err(|error| error.context(WRONG_HANDLERS))?,
            standard: standard
                .map_err(|error| error.context("the type of wasi:http/incoming-handler"))?,
            mount: Arc::clone(&self.mount),
        })
    }
}

impl Guest {
    /// Returns the interface of routes. Returns `None` if the component has only handlers, or is
    /// mounted.
    pub(crate) fn module(&self) -> Option<&module::Guest> {
        self.module.as_ref().map(Everything::latchmail_host_module)
    }

    /// Returns the interface of handlers. Returns `None` if the component has only routes.
    pub(crate) fn handlers(&self) -> Option<&handlers::Guest> {
        let handlers = self.handlers.as_ref();
        handlers.map(EventHandlers::latchmail_host_handlers)
    }

    /// Returns the exports of a standard component, and the path at which it is mounted.
    pub(crate) fn standard(&self) -> Option<(&Proxy, &str)> {
        Some((self.standard.as_ref()?, &*self.mount))
    }
}
