//! The owner's page in a browser without scripts.

use crate::administrator::{FormBrowser, PageForm, text};
use crate::{PASSWORD, Response, Service};

/// The path of the sign-in page.
const SIGN_IN: &str = "/account/sign-in";

impl FormBrowser {
    /// Opens a browser in which the owner of this account is signed in to the owner's page. The
    /// service must have an empty `base_url`, because forms are accepted only from its own URL.
    pub async fn of_owner(service: &Service, address: &str) -> Self {
        let browser = Self::open(&service.base);
        let response = browser.sign_in_to_account(SIGN_IN, address, PASSWORD, "");
        let response = response.await;
        assert_eq!(response.status, 303, "{}", text(&response));
        assert_eq!(response.header("location"), Some("/account"));
        browser
    }

    /// Fills in the sign-in page at this path and sends it.
    pub async fn sign_in_to_account(
        &self,
        path: &str,
        address: &str,
        password: &str,
        code: &str,
    ) -> Response {
        let page = self.page(path).await;
        let mut form = PageForm::named(&page, "Sign in");
        for (name, value) in [("email", address), ("password", password), ("code", code)] {
            form.fields.insert(name.into(), value.into());
        }
        self.submit(&form).await
    }

    /// Loads a page, and sends the only form whose button has this name and whose action contains
    /// `action`, with these values of fields.
    pub async fn press(
        &self,
        path: &str,
        (button, action): (&str, &str),
        values: &[(&str, &str)],
    ) -> Response {
        let page = self.page(path).await;
        let mut form = PageForm::of_action(&page, button, action);
        for (name, value) in values {
            form.fields.insert((*name).into(), (*value).into());
        }
        self.submit(&form).await
    }

    /// Presses a button, and confirms the action on the next page.
    pub async fn press_and_confirm(
        &self,
        path: &str,
        (button, action): (&str, &str),
        values: &[(&str, &str)],
    ) -> Response {
        let question = self.press(path, (button, action), values).await;
        let page = text(&question);
        assert_eq!(question.status, 200, "{page}");
        self.submit(&PageForm::of_action(&page, button, action))
            .await
    }
}
