"""An agent loop that asks the model to look at its own answer once."""

from uuid import uuid4

from own_words import second_look
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register


@register("second_look")
class SecondLookLoop(AgentLoopBase):
    """Answer, a question about it, answer."""

    def __init__(self, *args, rounds=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.rounds = rounds
        self.response_length = self.rollout_config.response_length

    async def run(self, sampling_params, **kwargs):
        messages = list(kwargs["raw_prompt"])
        hint = kwargs.get("hint", "")
        prompt_ids = await self.apply_chat_template(messages)
        response_ids, mask, turns, changed = [], [], 1, 0
        before = ""
        for number in range(self.rounds + 1):
            answer = await self.server_manager.generate(
                request_id=uuid4().hex, prompt_ids=prompt_ids + response_ids, sampling_params=sampling_params
            )
            response_ids += answer.token_ids
            mask += [1] * len(answer.token_ids)
            turns += 1
            text = self.tokenizer.decode(answer.token_ids)
            changed += bool(before) and text != before
            before = text
            if number == self.rounds or len(response_ids) >= self.response_length:
                break
            question = [{"role": "user", "content": second_look(hint)}]
            ids = await self.apply_chat_template(question, remove_system_prompt=True)
            if len(response_ids) + len(ids) >= self.response_length:
                break
            response_ids += ids
            mask += [0] * len(ids)
            turns += 1
        return AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=response_ids[: self.response_length],
            response_mask=mask[: self.response_length],
            num_turns=turns,
            metrics=AgentLoopMetrics(),
            extra_fields={"changed": changed},
        )
