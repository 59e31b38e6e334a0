//! Checks that a component matches the contract of this host, and describes the differences. The
//! component can use another version of the contract with the same major number. In this case, the
//! host must have all functions and types that the component uses (`docs/contract.md`).

use latchmail_bindings::VERSION;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::linked::{Exports, WRONG_HANDLERS};
use super::linker::{GRANTABLE, UNGRANTED};
use super::mount;

/// The prefix of all interface names of the contract.
const PACKAGE: &str = "latchmail:host/";

/// The interface of routes, and the names of its functions.
const MODULE: (&str, &[&str]) = ("module", &["describe", "handle"]);

/// The interface of handlers, and the names of its functions.
const HANDLERS: (&str, &[&str]) = ("handlers", &["subscriptions", "on-event", "on-timer"]);

/// Checks the names of the imports and exports. Returns an error for an incompatible version, an
/// unknown interface or a missing export. A mounted component needs other exports than a module.
/// The types are checked when the component is linked.
pub(crate) fn check(
    engine: &Engine,
    component: &Component,
    is_mounted: bool,
) -> Result<Exports, String> {
    let component = component.component_type();
    let imports: Vec<&str> = component.imports(engine).map(|(name, _)| name).collect();
    let exports: Vec<&str> = component.exports(engine).map(|(name, _)| name).collect();
    for (interface, version) in imports
        .iter()
        .chain(&exports)
        .filter_map(|name| contract_name(name))
    {
        if major(version) != major(VERSION) {
            return Err(format!(
                "it was built against version {version} of the contract ({PACKAGE}{interface}), but this host supports {VERSION}"
            ));
        }
    }
    let is_known =
        |interface: &str| UNGRANTED.contains(&interface) || GRANTABLE.contains(&interface);
    let mut contract_imports = imports.iter().filter_map(|name| contract_name(name));
    if let Some((interface, version)) = contract_imports.find(|(name, _)| !is_known(name)) {
        return Err(format!(
            "it imports {PACKAGE}{interface}@{version}, which this host does not have; its contract is version {VERSION}"
        ));
    }
    let has = |(interface, functions): (&str, &[&str])| {
        let exported = component.exports(engine).find(|(name, _)| {
            contract_name(name).is_some_and(|(exported, _)| exported == interface)
        });
        let Some((name, exported)) = exported else {
            return Ok(false);
        };
        let has = |function: &&&str| match &exported.ty {
            ComponentItem::ComponentInstance(instance) => matches!(
                instance
                    .get_export(engine, function)
                    .map(|export| export.ty),
                Some(ComponentItem::ComponentFunc(_))
            ),
            _ => false,
        };
        match functions.iter().find(|function| !has(function)) {
            Some(function) => Err(format!(
                "it exports {name} without the function `{function}`"
            )),
            None => Ok(true),
        }
    };
    let found = Exports {
        module: has(MODULE)?,
        handlers: has(HANDLERS)?,
    };
    if is_mounted {
        mount::check(&exports)?;
    } else if !found.module && !found.handlers {
        let advice = mount::advice(&exports);
        let exports = match &*exports {
            [] => "nothing".into(),
            exports => exports.join(", "),
        };
        let (module, handlers) = (MODULE.0, HANDLERS.0);
        return Err(format!(
            "it does not export {PACKAGE}{module}@{VERSION} or {PACKAGE}{handlers}@{VERSION}, one of which every module must export; it exports {exports}{advice}"
        ));
    }
    Ok(found)
}

/// Describes a link error. The text contains the name of the function, and states whether the
/// function is missing or has a different type.
pub(crate) fn link_error(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let named: Option<(&str, &str)> = match causes.as_slice() {
        [import, function, ..] => quoted(import).zip(quoted(function)),
        _ => None,
    };
    let Some((import, function)) = named else {
        return format!("it cannot be linked: {error:#}");
    };
    let contract = match contract_name(import) {
        Some(_) => format!("; its contract is version {VERSION}"),
        None => String::new(),
    };
    let imports = format!("it imports `{function}` of {import}");
    match &causes[2..] {
        [missing] if missing.ends_with("implementation is missing") => {
            format!("{imports}, which this host does not have{contract}")
        }
        differences => format!(
            "{imports} with a type that differs from this host's{contract}: {}",
            differences.join(": ")
        ),
    }
}

/// Describes the error if a linked component cannot be instantiated.
pub(crate) fn instantiation_error(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    match causes.as_slice() {
        // Wasmtime checks the types of exports only at instantiation.
        [exported, differences @ ..] if exported.starts_with("failed to convert function") => {
            let (interface, differences) = if exported == WRONG_HANDLERS {
                (HANDLERS.0, differences.get(1..).unwrap_or_default())
            } else {
                (MODULE.0, differences)
            };
            format!(
                "it exports {PACKAGE}{interface} with a type that differs from the contract, version {VERSION}: {}",
                differences.join(": ")
            )
        }
        _ => format!("it cannot be instantiated: {error:#}"),
    }
}

/// Splits the name of an interface of the contract into the interface and its version. Returns
/// `None` if the name does not belong to the contract.
fn contract_name(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix(PACKAGE)?;
    Some(name.split_once('@').unwrap_or((name, "unknown")))
}

fn major(version: &str) -> Option<&str> {
    version.split('.').next()
}

/// Returns the text in the first pair of backticks.
fn quoted(text: &str) -> Option<&str> {
    text.split('`').nth(1)
}
