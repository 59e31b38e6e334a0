//! Whether a component was built against a contract that this host speaks, and where it was not, what of it does not fit. Versions with one first number
//! fit each other as far as a component uses what both have (`docs/contract.md`).

use latchmail_bindings::VERSION;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::linker::{GRANTABLE, UNGRANTED};

/// The beginning of every name of the contract's.
const PACKAGE: &str = "latchmail:host/";

/// The interface that every module exports, and its functions.
const EXPORT: &str = "module";
const FUNCTIONS: [&str; 2] = ["describe", "handle"];

/// What can be told by names alone: the version, interfaces that there are not, what a module has to export.
pub(crate) fn check(engine: &Engine, component: &Component) -> Result<(), String> {
    let component = component.component_type();
    let imports: Vec<&str> = component.imports(engine).map(|(name, _)| name).collect();
    let exports: Vec<&str> = component.exports(engine).map(|(name, _)| name).collect();
    for (interface, version) in imports.iter().chain(&exports).filter_map(|name| own(name)) {
        if major(version) != major(VERSION) {
            return Err(format!(
                "it was built against version {version} of the contract ({PACKAGE}{interface}), and this host speaks {VERSION}"
            ));
        }
    }
    let known = |interface: &str| UNGRANTED.contains(&interface) || GRANTABLE.contains(&interface);
    let mut own_imports = imports.iter().filter_map(|name| own(name));
    if let Some((interface, version)) = own_imports.find(|(name, _)| !known(name)) {
        return Err(format!(
            "it imports {PACKAGE}{interface}@{version}, which this host does not have; its contract is version {VERSION}"
        ));
    }
    let Some((name, module)) = component
        .exports(engine)
        .find(|(name, _)| own(name).is_some_and(|(interface, _)| interface == EXPORT))
    else {
        let exports = match &*exports {
            [] => "nothing".into(),
            exports => exports.join(", "),
        };
        return Err(format!(
            "it does not export {PACKAGE}{EXPORT}@{VERSION}, as every module does; it exports {exports}"
        ));
    };
    let has = |function: &str| match &module.ty {
        ComponentItem::ComponentInstance(module) => matches!(
            module.get_export(engine, function).map(|export| export.ty),
            Some(ComponentItem::ComponentFunc(_))
        ),
        _ => false,
    };
    match FUNCTIONS.into_iter().find(|function| !has(function)) {
        Some(function) => Err(format!(
            "it exports {name} without the function `{function}`"
        )),
        None => Ok(()),
    }
}

/// Why a component could not be linked: which function, and whether there is none such or one of another shape.
pub(crate) fn unlinkable(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let named: Option<(&str, &str)> = match causes.as_slice() {
        [import, function, ..] => quoted(import).zip(quoted(function)),
        _ => None,
    };
    let Some((import, function)) = named else {
        return format!("it does not fit this host: {error:#}");
    };
    let contract = match own(import) {
        Some(_) => format!("; its contract is version {VERSION}"),
        None => String::new(),
    };
    let imports = format!("it imports `{function}` of {import}");
    match &causes[2..] {
        [missing] if missing.ends_with("implementation is missing") => {
            format!("{imports}, which this host does not have{contract}")
        }
        differences => format!(
            "{imports} in another shape than this host has it{contract}: {}",
            differences.join(": ")
        ),
    }
}

/// Why no instance of a component could be made that could be linked.
pub(crate) fn uninstantiable(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    match causes.as_slice() {
        // What an export is, is found out with an instance only.
        [exported, differences @ ..] if exported.starts_with("failed to convert function") => {
            format!(
                "it exports {PACKAGE}{EXPORT} in another shape than this host's contract, version {VERSION}, gives it: {}",
                differences.join(": ")
            )
        }
        _ => format!("no instance of it can be made: {error:#}"),
    }
}

/// Interface and version, where a name is one of the contract's.
fn own(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_prefix(PACKAGE)?;
    Some(name.split_once('@').unwrap_or((name, "unknown")))
}

fn major(version: &str) -> Option<&str> {
    version.split('.').next()
}

/// What stands in the first backticks.
fn quoted(text: &str) -> Option<&str> {
    text.split('`').nth(1)
}
