//! From a file to a module that can be called: read, compile, compare imports with grants, link, make one instance, ask it what it is.
//! Whatever goes wrong is one sentence that names the module and the reason.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use latchmail_bindings::EverythingPre;
use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::engine::{self, LARGEST_MEMORY_MIB};
use super::sandbox::{self, Budget};
use super::{Module, Modules, convert, linker};
use crate::api::{Call, Services};
use crate::caller::Origin;
use crate::config;
use crate::error::StartError;
use crate::turns::Turns;

/// How long a module may take to say what it is.
const DESCRIBE: Duration = Duration::from_secs(5);

/// Calls of one account at a time, in all modules together. As many as it may have connections to the mail server by default: more
/// would only wait there.
const SHARE: usize = 8;

/// Sandboxes beyond those of the modules: for asking a new module what it is while all others are at work.
const SPARE: u32 = 4;

/// Loads every module of the configuration.
///
/// # Errors
/// A sentence that names the first module that cannot be loaded, and the reason.
pub async fn load(
    modules: &BTreeMap<String, config::Module>,
    cache_dir: &std::path::Path,
    services: &Services,
) -> Result<Modules, StartError> {
    let sandboxes = modules.values().map(|m| m.concurrency).sum::<u32>() + SPARE;
    let engine = engine::engine(sandboxes, cache_dir)?;
    let turns = Arc::new(Turns::new(SHARE));
    let mut loaded = Vec::with_capacity(modules.len());
    for (name, config) in modules {
        let module = one(&engine, &turns, name, config, services)
            .await
            .map_err(|reason| {
                StartError::new(format!("module `{name}` cannot be loaded: {reason}"))
            })?;
        loaded.push(Arc::new(module));
    }
    Ok(loaded)
}

async fn one(
    engine: &Engine,
    turns: &Arc<Turns>,
    name: &str,
    config: &config::Module,
    services: &Services,
) -> Result<Module, String> {
    check(config)?;
    let bytes = tokio::fs::read(&config.source)
        .await
        .map_err(|e| format!("{} cannot be read: {e}", config.source.display()))?;
    let component = compile(engine, bytes).await?;
    let missing = linker::ungranted(engine, &component, &config.grants);
    if !missing.is_empty() {
        return Err(format!(
            "it imports what it was not granted: {}",
            missing.join(", ")
        ));
    }
    let pre = linker::linker(engine, &config.grants)
        .and_then(|linker| linker.instantiate_pre(&component))
        .and_then(EverythingPre::new)
        .map_err(|e| format!("it does not fit this host: {e:#}"))?;
    let mut module = Module {
        manifest: super::Manifest {
            name: name.into(),
            version: String::new(),
            routes: Vec::new(),
            description: serde_json::Value::Null,
        },
        name: name.into(),
        engine: engine.clone(),
        pre,
        services: services.clone(),
        settings: Arc::new(config.config.clone()),
        budget: Budget {
            memory: config.memory as usize * 1024 * 1024,
            cpu: config.cpu,
        },
        deadline: config.deadline,
        places: Semaphore::new(config.concurrency as usize),
        turns: Arc::clone(turns),
    };
    module.manifest = describe(&module).await?;
    let elsewhere = module
        .manifest
        .routes
        .iter()
        .find(|route| !config.paths.iter().any(|own| route.path.starts_with(own)));
    if let Some(route) = elsewhere {
        return Err(format!(
            "it has the route {}, and its paths begin with {}",
            route.path,
            config.paths.join(" or ")
        ));
    }
    tracing::info!(
        module = name,
        version = module.manifest.version,
        routes = module.manifest.routes.len(),
        "module loaded"
    );
    Ok(module)
}

fn check(config: &config::Module) -> Result<(), String> {
    if let Some(unknown) = config
        .grants
        .iter()
        .find(|grant| !linker::GRANTABLE.contains(&grant.as_str()))
    {
        return Err(format!(
            "its grants name `{unknown}`; there are {}",
            linker::GRANTABLE.join(", ")
        ));
    }
    if config.memory == 0 || config.memory > LARGEST_MEMORY_MIB {
        return Err(format!(
            "its memory is {} MiB; it may be 1 to {LARGEST_MEMORY_MIB}",
            config.memory
        ));
    }
    if !(1..=1000).contains(&config.concurrency) {
        return Err(format!(
            "its concurrency is {}; it may be 1 to 1000",
            config.concurrency
        ));
    }
    if config.reuse {
        return Err("`reuse` is not offered: every request gets a fresh sandbox".into());
    }
    Ok(())
}

/// Compiles on a thread of its own, fenced: the compiler panics once in a thousand times, and that must not end the service.
async fn compile(engine: &Engine, bytes: Vec<u8>) -> Result<Component, String> {
    let engine = engine.clone();
    let compiled = tokio::task::spawn_blocking(move || {
        std::panic::catch_unwind(AssertUnwindSafe(|| Component::new(&engine, bytes)))
    })
    .await;
    match compiled {
        Ok(Ok(Ok(component))) => Ok(component),
        Ok(Ok(Err(e))) => Err(format!("it is not a component that can be compiled: {e:#}")),
        Ok(Err(_)) | Err(_) => Err("the compiler failed on it".into()),
    }
}

async fn describe(module: &Module) -> Result<super::Manifest, String> {
    let call = Call::new(
        module.services.clone(),
        module.name.clone(),
        module.settings.clone(),
        None,
        Origin::default(),
    );
    let asked = async {
        let (mut store, instance) =
            sandbox::instantiate(&module.engine, &module.pre, call, module.budget)
                .await
                .map_err(|e| format!("no instance of it can be made: {e:#}"))?;
        instance
            .latchmail_host_module()
            .call_describe(&mut store)
            .await
            .map_err(|e| format!("`describe` trapped: {}", sandbox::trap(&store, &e)))
    };
    let said = tokio::time::timeout(DESCRIBE, asked)
        .await
        .map_err(|_| format!("`describe` took longer than {} s", DESCRIBE.as_secs()))??;
    let manifest = convert::manifest(said).map_err(|reason| format!("its manifest {reason}"))?;
    if manifest.name == *module.name {
        Ok(manifest)
    } else {
        Err(format!("it calls itself `{}`", manifest.name))
    }
}
