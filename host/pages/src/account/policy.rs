//! `/account/grants/{id}/policy`: the owner changes the policy of an agent or a token, with a
//! preset or field by field. [`Policy::parse`] checks the fields, as it does for the API.

use http::StatusCode;
use latchmail_core::policy::{DeleteLimit, OnDenied, Policy, Preset, SendLimit};
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};
use serde_json::json;

use super::grants::{find, missing};
use super::paths;
use super::visit::{Visit, act, show};
use crate::elements::token;
use crate::page_session::Fields;
use crate::policy_words::policy_list;

/// The number of characters of a time in the form `2026-01-31T12:00`.
const MINUTES: usize = 16;

/// The values of the form's fields as texts.
#[expect(clippy::struct_excessive_bools, reason = "one for each checkbox")]
struct PolicyForm {
    send: String,
    /// One address or domain in each line.
    send_to: String,
    send_per_day: String,
    recipients_per_day: String,
    all_folders: bool,
    /// One path in each line.
    folders: String,
    attachments: bool,
    hide_codes: bool,
    delete: String,
    on_denied: String,
    aliases: bool,
    until: String,
}

/// Shows the policy, the presets and the form.
pub(super) async fn edit(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let grant = find(&visit).await?;
        let path = policy_path(&grant.id);
        // Without a policy, the form begins with the preset that allows least.
        let policy = grant.policy.as_ref();
        let form = policy.map_or_else(|| PolicyForm::of(&Preset::Reader.policy()), PolicyForm::of);
        let body = html! {
            h2 { "Now" }
            (policy_list(policy))
            h2 { "Presets" }
            ul.cards {
                @for preset in Preset::ALL { li { (preset_form(visit.csrf(), &path, preset)) } }
            }
            h2 { "Own policy" }
            (form.render(visit.csrf(), &path, None))
        };
        let title = format!("Policy of {}", grant.name);
        visit.page(paths::GRANTS, &title, &body)
    });
    show(app, request, page).await
}

/// Receives a preset or the form, and stores the policy.
pub(super) async fn save(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let grant = find(&visit).await?;
        let preset = fields.one("preset")?.and_then(Preset::named);
        let policy = if let Some(preset) = preset {
            preset.policy()
        } else {
            let form = PolicyForm::read(&fields)?;
            match form.policy() {
                Ok(policy) => policy,
                Err(problem) => {
                    let path = policy_path(&grant.id);
                    let body = form.render(visit.csrf(), &path, Some(&problem));
                    let title = format!("Policy of {}", grant.name);
                    let status = StatusCode::BAD_REQUEST;
                    return visit.page_with_status(status, paths::GRANTS, &title, &body);
                }
            }
        };
        let changed = app
            .auth
            .grants
            .set_policy(visit.session(), &grant.id, policy, visit.origin())
            .await?;
        if !changed {
            return Err(missing().into());
        }
        visit.done(
            &paths::of(paths::GRANTS, &grant.id),
            format!("The policy of {} is changed.", grant.name),
        )
    });
    act(app, request, page).await
}

fn policy_path(id: &str) -> String {
    format!("{}/policy", paths::of(paths::GRANTS, id))
}

fn preset_form(csrf: &str, path: &str, preset: Preset) -> Markup {
    let id = format!("preset-{}", preset.name());
    html! {
        h3 #(id) { (preset.name()) }
        details {
            summary { "What it allows" }
            (policy_list(Some(&preset.policy())))
        }
        form method="post" action=(path) {
            (token(csrf))
            input type="hidden" name="preset" value=(preset.name());
            button type="submit" { "Use " (preset.name()) }
        }
    }
}

impl PolicyForm {
    fn of(policy: &Policy) -> Self {
        let number = |cap: Option<u32>| cap.map_or_else(String::new, |cap| cap.to_string());
        let until = policy.until.map(|until| until.to_string());
        let until = until.as_deref().and_then(|text| text.get(..MINUTES));
        Self {
            send: policy.send.name().into(),
            send_to: policy.send_to.join("\n"),
            send_per_day: number(policy.send_per_day),
            recipients_per_day: number(policy.recipients_per_day),
            all_folders: policy.folders.is_none(),
            folders: policy.folders.as_deref().unwrap_or_default().join("\n"),
            attachments: policy.attachments,
            hide_codes: policy.hide_codes,
            delete: policy.delete.name().into(),
            on_denied: policy.on_denied.name().into(),
            aliases: policy.aliases,
            until: until.unwrap_or_default().to_owned(),
        }
    }

    fn read(fields: &Fields) -> Result<Self, Rejection> {
        let text = |name| Ok::<_, Rejection>(fields.one(name)?.unwrap_or_default().to_owned());
        let checked = |name| Ok::<_, Rejection>(fields.one(name)?.is_some());
        Ok(Self {
            send: text("send")?,
            send_to: text("sendTo")?,
            send_per_day: text("sendPerDay")?,
            recipients_per_day: text("recipientsPerDay")?,
            all_folders: checked("allFolders")?,
            folders: text("folders")?,
            attachments: checked("attachments")?,
            hide_codes: checked("hideCodes")?,
            delete: text("delete")?,
            on_denied: text("onDenied")?,
            aliases: checked("aliases")?,
            until: text("until")?,
        })
    }

    /// Returns the policy, or a sentence about the first invalid field.
    fn policy(&self) -> Result<Policy, String> {
        let cap = |name: &str, text: &str| match text.trim() {
            "" => Ok(None),
            text => match text.parse::<u32>() {
                Ok(cap) => Ok(Some(cap)),
                Err(_) => Err(format!("{name} must be a whole number, or empty")),
            },
        };
        let until = match self.until.trim() {
            "" => None,
            until if until.len() == MINUTES => Some(format!("{until}:00Z")),
            until => Some(format!("{until}Z")),
        };
        let policy = json!({
            "send": self.send,
            "sendTo": lines(&self.send_to),
            "sendPerDay": cap("“Messages a day”", &self.send_per_day)?,
            "recipientsPerDay": cap("“Recipients a day”", &self.recipients_per_day)?,
            "folders": (!self.all_folders).then(|| lines(&self.folders)),
            "attachments": self.attachments,
            "hideCodes": self.hide_codes,
            "delete": self.delete,
            "onDenied": self.on_denied,
            "aliases": self.aliases,
            "until": until,
        });
        Policy::parse(&policy.to_string()).map_err(|problem| problem.text.into_owned())
    }

    /// Renders the form. `problem` is the problem of the submitted values.
    fn render(&self, csrf: &str, path: &str, problem: Option<&str>) -> Markup {
        html! {
            @if let Some(problem) = problem {
                p role="alert" { "The policy was not changed: " (problem) "." }
            }
            form.wide method="post" action=(path) {
                (token(csrf))
                fieldset {
                    legend { "Sending" }
                    (select("send", "It may send", &self.send, &SENDING))
                    (area("sendTo", "List of recipients", "One address or @domain in each line.", &self.send_to))
                    (number("sendPerDay", "Messages a day", &self.send_per_day))
                    (number("recipientsPerDay", "Recipients a day", &self.recipients_per_day))
                    (select("onDenied", "Other messages", &self.on_denied, &DENIED))
                }
                fieldset {
                    legend { "Reading" }
                    (check("allFolders", "All folders", self.all_folders))
                    (area("folders", "Folders", "One path in each line, without subfolders. Ignored if “All folders” is selected.", &self.folders))
                    (check("attachments", "Attachments of my mail, also for sending", self.attachments))
                    (check("hideCodes", "Hide codes and links for signing in", self.hide_codes))
                }
                fieldset {
                    legend { "Changing" }
                    (select("delete", "It may delete mail", &self.delete, &DELETING))
                    (check("aliases", "Create and change aliases", self.aliases))
                }
                fieldset {
                    legend { "End" }
                    label for="until" { "It may act until (UTC)" }
                    p.soft #until-hint { "Without a time, the policy has no end." }
                    input #until type="datetime-local" name="until" value=(self.until) aria-describedby="until-hint";
                }
                button.primary type="submit" { "Save the policy" }
            }
        }
    }
}

const SENDING: [(&str, &str); 5] = [
    (SendLimit::Never.name(), "nothing, and write no drafts"),
    (SendLimit::Drafts.name(), "nothing, only write drafts"),
    (
        SendLimit::Thread.name(),
        "to people to whom I wrote in the thread, and to the list",
    ),
    (SendLimit::List.name(), "only to the list"),
    (SendLimit::Any.name(), "to everyone"),
];

const DENIED: [(&str, &str); 2] = [
    (OnDenied::Hold.name(), "wait for my decision"),
    (OnDenied::Refuse.name(), "are refused"),
];

const DELETING: [(&str, &str); 3] = [
    (DeleteLimit::Never.name(), "not at all"),
    (DeleteLimit::Trash.name(), "by a move to Trash"),
    (DeleteLimit::Permanent.name(), "permanently"),
];

/// Returns the lines of a text without surrounding white space. Omits empty lines.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

fn select(name: &str, label: &str, value: &str, options: &[(&str, &str)]) -> Markup {
    html! {
        label for=(name) { (label) }
        select #(name) name=(name) {
            @for (option, text) in options {
                option value=(option) selected[*option == value] { (text) }
            }
        }
    }
}

fn number(name: &str, label: &str, value: &str) -> Markup {
    let hint = format!("{name}-hint");
    html! {
        label for=(name) { (label) }
        p.soft #(hint) { "At most. Without a number, there is no limit." }
        input #(name) type="text" inputmode="numeric" name=(name) value=(value) maxlength="7" aria-describedby=(hint);
    }
}

fn area(name: &str, label: &str, hint_text: &str, value: &str) -> Markup {
    let hint = format!("{name}-hint");
    html! {
        label for=(name) { (label) }
        p.soft #(hint) { (hint_text) }
        textarea #(name) name=(name) rows="4" aria-describedby=(hint) autocapitalize="none" spellcheck="false" { (value) }
    }
}

fn check(name: &str, label: &str, value: bool) -> Markup {
    html! {
        label.check {
            input type="checkbox" name=(name) value="yes" checked[value];
            (label)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_policy_gives_the_same_policy() {
        let mut policies: Vec<Policy> = Preset::ALL.map(Preset::policy).into();
        policies.push(
            Policy::parse(
                r#"{"send":"list","sendTo":["ann@elsewhere.example","@friends.example"],"sendPerDay":3,
                    "folders":["INBOX","Work"],"until":"2027-01-01T10:30:00Z"}"#,
            )
            .unwrap(),
        );
        policies.push(Policy::parse(r#"{"folders":[]}"#).unwrap());
        for policy in policies {
            assert_eq!(PolicyForm::of(&policy).policy(), Ok(policy));
        }
    }

    #[test]
    fn an_invalid_field_is_named() {
        let form = || PolicyForm::of(&Preset::Assistant.policy());
        let changed = |change: fn(&mut PolicyForm)| {
            let mut form = form();
            change(&mut form);
            form.policy().unwrap_err()
        };
        for (problem, name) in [
            (
                changed(|form| form.send_per_day = "many".into()),
                "Messages a day",
            ),
            (
                changed(|form| form.send_per_day = "-1".into()),
                "Messages a day",
            ),
            (changed(|form| form.send_to = "ann".into()), "sendTo"),
            (changed(|form| form.until = "tomorrow".into()), "until"),
            (changed(|form| form.send = "all".into()), "all"),
        ] {
            assert!(problem.contains(name), "{problem}");
        }
    }

    #[test]
    fn the_owner_gets_the_submitted_values_again_as_text() {
        let mut form = PolicyForm::of(&Preset::Reader.policy());
        form.send_to = "</textarea><script>".into();
        let shown = form.render("t", "/p", Some("no")).into_string();
        assert!(!shown.contains("<script>"), "{shown}");
        assert!(shown.contains("was not changed"), "{shown}");
    }
}
