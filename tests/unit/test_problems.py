"""How sentences about many objects read."""

from killcheck.text.problems import folded


def test_many_of_the_same_why_are_one_sentence_and_few_are_themselves():
    pods = [f"Pod/a/{number}: it was not run: no image" for number in range(28)]
    said = [*pods, "Pod/b/0: it waits", "Pod/b/1: it waits", "nobody knows", pods[0]]
    assert list(folded(said)) == [
        "Pod/a/0 and 27 more: it was not run: no image",
        "Pod/b/0: it waits",
        "Pod/b/1: it waits",
        "nobody knows",
    ]
