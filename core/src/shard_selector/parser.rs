//! Reads an expression of CEL from its words. Two depths are bounded as upstream bounds them: that of expressions inside
//! each other, which also keeps the stack of this reader small, and that of operators and members on each other.

use super::cel::{CelError, Expr, Literal};
use super::lexer::{self, Token};

/// Upstream's bound for both depths.
const MAX_DEPTH: usize = 250;
/// Upstream's bound for the text.
const MAX_CHARACTERS: usize = 100_000;

/// Operators from the loosest to the tightest; those of one row bind alike, to the left.
const OPERATORS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("<=", "_<=_"),
        (">=", "_>=_"),
        ("<", "_<_"),
        (">", "_>_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// Rows of operators that upstream keeps flat, so they add nothing to the height.
const FLAT_ROWS: usize = 2;

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// An expression and how many operators and members stand on each other in it.
struct Node {
    expr: Expr,
    height: usize,
}

/// What stands in brackets or braces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    List,
    Map,
    Message,
}

/// Reads one expression.
pub(super) fn parse(text: &str) -> Result<Expr, CelError> {
    let characters = text.chars().count();
    if characters > MAX_CHARACTERS {
        return Err(CelError::Size(characters, MAX_CHARACTERS));
    }
    let mut parser = Parser { tokens: lexer::lex(text)?, at: 0, depth: 0 };
    let node = parser.expr()?;
    if parser.at < parser.tokens.len() { Err(parser.unexpected()) } else { Ok(node.expr) }
}

// === impl Parser ===

impl Parser {
    fn expr(&mut self) -> Result<Node, CelError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CelError::Depth(MAX_DEPTH));
        }
        let mut node = self.operators(0)?;
        if self.take("?") {
            let chosen = self.operators(0)?.height;
            self.expect(":")?;
            let other = self.expr()?.height;
            node = Node::operator("_?_:_", node.height.max(chosen).max(other))?;
        }
        self.depth -= 1;
        Ok(node)
    }

    fn operators(&mut self, loosest: usize) -> Result<Node, CelError> {
        let mut left = self.signed()?;
        while let Some((row, name)) = self.operator().filter(|(row, _)| *row >= loosest) {
            self.at += 1;
            let right = self.operators(row + 1)?;
            let height = left.height.max(right.height);
            left = match row {
                0 => Node { expr: or(left.expr, right.expr), height },
                _ if row < FLAT_ROWS => Node { expr: call(name, Vec::new()), height },
                _ => Node::operator(name, height)?,
            };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(usize, &'static str)> {
        let Some(Token::Symbol(symbol)) = self.tokens.get(self.at) else { return None };
        OPERATORS.iter().enumerate().find_map(|(row, operators)| {
            operators.iter().find(|(text, _)| text == symbol).map(|(_, name)| (row, *name))
        })
    }

    /// A member behind signs of one kind. Two signs cancel out, and one minus belongs to the number behind it.
    fn signed(&mut self) -> Result<Node, CelError> {
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while (count > 0 || !self.is_negative_number()) && self.take(sign) {
                count += 1;
            }
            if count > 0 {
                let Node { expr, height } = self.members()?;
                let expr = if count % 2 == 0 { expr } else { call(name, Vec::new()) };
                return Ok(Node { expr, height });
            }
        }
        self.members()
    }

    fn members(&mut self) -> Result<Node, CelError> {
        let mut node = self.primary()?;
        loop {
            if self.take(".") {
                node = self.member(node)?;
            } else if self.take("[") {
                if self.take("?") {
                    return Err(CelError::Optional("["));
                }
                let index = self.expr()?.height;
                self.expect("]")?;
                node = Node::operator("_[_]", node.height.max(index))?;
            } else {
                return Ok(node);
            }
        }
    }

    /// What follows a dot.
    fn member(&mut self, of: Node) -> Result<Node, CelError> {
        if self.take("?") {
            return Err(CelError::Optional("."));
        }
        let (name, is_plain) = match self.tokens.get(self.at) {
            Some(Token::Name(name)) => (name.clone(), true),
            Some(Token::EscapedName(name)) => (name.clone(), false),
            Some(Token::Text(_) | Token::Other(_) | Token::Number(..) | Token::Symbol(_)) | None => {
                return Err(self.unexpected());
            }
        };
        self.at += 1;
        if is_plain && self.take("(") {
            let (arguments, height) = self.arguments()?;
            return Node::on(call(&name, arguments), of.height.max(height));
        }
        Node::on(Expr::Member { of: Box::new(of.expr), name }, of.height)
    }

    fn primary(&mut self) -> Result<Node, CelError> {
        if self.is_message() {
            while !self.take("{") {
                self.at += 1;
            }
            return self.elements(Form::Message);
        }
        let is_negative = self.is_negative_number() && self.take("-");
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Number(type_name, number)) => {
                number.check(is_negative).map(|()| Node::leaf(Expr::Literal(Literal::Other(type_name))))
            }
            Some(Token::Text(text)) => Ok(Node::leaf(Expr::Literal(Literal::Text(text)))),
            Some(Token::Other(type_name)) => Ok(Node::leaf(Expr::Literal(Literal::Other(type_name)))),
            Some(Token::Symbol("(")) => {
                let node = self.expr()?;
                self.expect(")").map(|()| node)
            }
            Some(Token::Symbol("[")) => self.elements(Form::List),
            Some(Token::Symbol("{")) => self.elements(Form::Map),
            Some(Token::Name(name)) => self.name("", name),
            Some(Token::Symbol(".")) => match self.tokens.get(self.at).cloned() {
                Some(Token::Name(name)) => {
                    self.at += 1;
                    self.name(".", name)
                }
                _ => Err(self.unexpected()),
            },
            Some(Token::Symbol(_) | Token::EscapedName(_)) | None => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    /// A name or call, after the dot that may stand before it.
    fn name(&mut self, dot: &str, name: String) -> Result<Node, CelError> {
        if lexer::is_reserved(&name) {
            return Err(CelError::Reserved(name));
        }
        let name = format!("{dot}{name}");
        if self.take("(") {
            let (arguments, height) = self.arguments()?;
            return Ok(Node { expr: call(&name, arguments), height });
        }
        Ok(Node::leaf(Expr::Name(name)))
    }

    /// The arguments of a call and its end.
    fn arguments(&mut self) -> Result<(Vec<Expr>, usize), CelError> {
        let (mut arguments, mut height) = (Vec::new(), 0);
        if self.take(")") {
            return Ok((arguments, height));
        }
        loop {
            let node = self.expr()?;
            height = height.max(node.height);
            arguments.push(node.expr);
            if !self.take(",") {
                self.expect(")")?;
                return Ok((arguments, height));
            }
        }
    }

    /// The inside of a list, map or message and its end; one comma may stand before the end.
    fn elements(&mut self, form: Form) -> Result<Node, CelError> {
        let (close, expr) = match form {
            Form::List => ("]", Expr::List),
            Form::Map => ("}", Expr::Map),
            Form::Message => ("}", Expr::Message),
        };
        let mut height = 0;
        if !self.is_symbol(self.at, ",") && !self.is_symbol(self.at, close) {
            height = self.element(form)?;
            while self.is_symbol(self.at, ",") && !self.is_symbol(self.at + 1, close) {
                self.at += 1;
                height = height.max(self.element(form)?);
            }
        }
        self.take(",");
        self.expect(close)?;
        Ok(Node { expr, height })
    }

    fn element(&mut self, form: Form) -> Result<usize, CelError> {
        if self.take("?") {
            return Err(CelError::Optional(""));
        }
        let key = if form == Form::Message { self.field_name()? } else { self.expr()?.height };
        if form == Form::List {
            return Ok(key);
        }
        self.expect(":")?;
        Ok(key.max(self.expr()?.height))
    }

    fn field_name(&mut self) -> Result<usize, CelError> {
        if !matches!(self.tokens.get(self.at), Some(Token::Name(_) | Token::EscapedName(_))) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(0)
    }

    /// Whether names with dots between them, and then a brace, stand here.
    fn is_message(&self) -> bool {
        let mut at = self.at + usize::from(self.is_symbol(self.at, "."));
        while matches!(self.tokens.get(at), Some(Token::Name(_))) {
            if self.is_symbol(at + 1, "{") {
                return true;
            }
            if !self.is_symbol(at + 1, ".") {
                return false;
            }
            at += 2;
        }
        false
    }

    fn is_negative_number(&self) -> bool {
        let is_number =
            matches!(self.tokens.get(self.at + 1), Some(Token::Number(_, number)) if number.takes_minus());
        is_number && self.is_symbol(self.at, "-")
    }

    fn is_symbol(&self, at: usize, wanted: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Symbol(symbol)) if *symbol == wanted)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_there = self.is_symbol(self.at, symbol);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CelError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> CelError {
        self.tokens.get(self.at).map_or(CelError::End, |token| CelError::Unexpected(token.to_string()))
    }
}

// === impl Node ===

impl Node {
    fn leaf(expr: Expr) -> Self {
        Self { expr, height: 0 }
    }

    /// An expression on others of this height.
    fn on(expr: Expr, height: usize) -> Result<Self, CelError> {
        let height = height + 1;
        if height > MAX_DEPTH { Err(CelError::Depth(MAX_DEPTH)) } else { Ok(Self { expr, height }) }
    }

    /// An operator; its operands don't matter.
    fn operator(name: &str, height: usize) -> Result<Self, CelError> {
        Self::on(call(name, Vec::new()), height)
    }
}

fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Call { function: function.to_owned(), arguments }
}

fn or(left: Expr, right: Expr) -> Expr {
    let mut terms = if let Expr::Or(terms) = left { terms } else { vec![left] };
    terms.push(right);
    Expr::Or(terms)
}
