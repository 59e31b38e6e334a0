//! The actions on a module: enable, disable, roll back and switch to another version.

use http::StatusCode;
use latchmail_core::codes;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};

use super::super::layout::{Confirmation, Section};
use super::super::paths;
use super::super::state::PageState;
use super::super::visit::{Refusal, Visit, respond};
use super::parts::name;

/// Enables a module. This action needs no confirmation.
pub(in super::super) async fn enable(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, _) = Visit::of_form(state, request).await?;
        let (app, name) = (visit.app, name(request));
        let origin = visit.origin();
        let modules = &app.module_manager;
        modules.set_enabled(app, name, true, &origin).await?;
        visit.done(paths::MODULES, format!("The module {name} is enabled."))
    });
    respond(request, page).await
}

/// Disables a module after a confirmation.
pub(in super::super) async fn disable(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(state, request).await?;
        let (app, name) = (visit.app, name(request));
        if !fields.are_confirmed()? {
            app.module_manager.show(name).await?;
            return confirm(
                visit,
                name,
                "disable",
                "Disable",
                &[],
                html! {
                    p { "The routes of the module are not available until the module is enabled again." }
                },
            );
        }
        let origin = visit.origin();
        let modules = &app.module_manager;
        modules.set_enabled(app, name, false, &origin).await?;
        visit.done(paths::MODULES, format!("The module {name} is disabled."))
    });
    respond(request, page).await
}

/// Rolls a module back after a confirmation.
pub(in super::super) async fn roll_back(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    change_version(state, request, "rollback", "Roll back").await
}

/// Switches a module to another stored version after a confirmation.
pub(in super::super) async fn switch(
    state: &PageState,
    request: &Request,
) -> Result<Response, Rejection> {
    change_version(state, request, "switch", "Switch").await
}

/// Replaces the current version of a module with the version in the form field `digest`. Without
/// this field, the new version is the version before the current version. The confirmation form
/// contains the digest of the new version, so submitting this form twice does not roll back twice.
async fn change_version(
    state: &PageState,
    request: &Request,
    verb: &str,
    button: &str,
) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(state, request).await?;
        let (app, name) = (visit.app, name(request));
        let modules = &app.module_manager;
        let digest = fields.one("digest")?;
        if !fields.are_confirmed()? {
            let report = modules.show(name).await?;
            let next = match digest {
                Some(digest) => report
                    .versions
                    .into_iter()
                    .find(|version| version.digest == digest)
                    .ok_or_else(|| {
                        Rejection::new(
                            StatusCode::NOT_FOUND,
                            codes::MODULE_VERSION_NOT_FOUND,
                            "There is no such version",
                        )
                    })?,
                None => modules.earlier_version(name).await?,
            };
            let current = report.summary.version.as_deref();
            let hidden = [("digest", next.digest.as_str())];
            let text = html! {
                p {
                    "The new version replaces the current version immediately. "
                    "The permissions of the module do not change."
                }
                @if current.is_none() {
                    p { "The module is not serving. This action also enables the module." }
                }
                dl {
                    dt { "Current version" }
                    dd { (current.unwrap_or("none")) }
                    dt { "New version" }
                    dd { (next.version) ", digest " (next.digest) }
                }
            };
            return confirm(visit, name, verb, button, &hidden, text);
        }
        let origin = visit.origin();
        let report = modules.roll_back(app, name, digest, &origin).await?;
        let version = report.summary.version.unwrap_or_default();
        visit.done(
            paths::MODULES,
            format!("The module {name} serves version {version}."),
        )
    });
    respond(request, page).await
}

/// Renders the page that asks the user to confirm an action on a module.
fn confirm(
    visit: Visit<'_>,
    name: &str,
    verb: &str,
    button: &str,
    fields: &[(&str, &str)],
    text: Markup,
) -> Result<Response, Refusal> {
    let confirmation = Confirmation {
        action: &format!("{}/{verb}", paths::of_module(name)),
        button,
        back: paths::MODULES,
        fields,
        text,
    };
    let body = confirmation.render(&visit.browser.csrf);
    let title = format!("{button} the module {name}?");
    visit.page(Some(Section::Modules), &title, &body)
}
