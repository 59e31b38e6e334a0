//! The exports of a component that the host calls: those of a module, or those of a standard
//! component, which is mounted ([`super::mount`]).

use std::sync::Arc;

use latchmail_bindings::{Everything, EverythingPre};
use wasmtime::Store;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::add_only_http_to_linker_async;
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyPre};

use super::manifest::Manifest;

/// A linked component, of which instances can be created.
pub(crate) enum GuestPre<T: 'static> {
    Module(EverythingPre<T>),
    Standard { pre: ProxyPre<T>, mount: Arc<str> },
}

/// The exports of an instance.
pub(crate) enum Guest {
    Module(Everything),
    Standard {
        proxy: Proxy,
        /// The path at which the component is mounted.
        mount: Arc<str>,
    },
}

impl<T: WasiHttpView + 'static> GuestPre<T> {
    /// Links a component. A mounted component is also linked with the interfaces of `wasi:http`.
    pub(super) fn new(
        mut linker: Linker<T>,
        component: &Component,
        manifest: &Manifest,
    ) -> wasmtime::Result<Self> {
        let Some(mount) = &manifest.mount else {
            let pre = linker.instantiate_pre(component)?;
            return EverythingPre::new(pre).map(Self::Module);
        };
        add_only_http_to_linker_async(&mut linker)?;
        let pre = linker.instantiate_pre(component)?;
        Ok(Self::Standard {
            pre: ProxyPre::new(pre)?,
            mount: Arc::clone(mount),
        })
    }

    /// Creates an instance.
    pub(super) async fn instantiate(&self, store: &mut Store<T>) -> wasmtime::Result<Guest> {
        match self {
            Self::Module(pre) => pre.instantiate_async(store).await.map(Guest::Module),
            Self::Standard { pre, mount } => Ok(Guest::Standard {
                proxy: pre.instantiate_async(store).await?,
                mount: Arc::clone(mount),
            }),
        }
    }
}
